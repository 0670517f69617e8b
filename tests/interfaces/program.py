"""Runs the program: as a process of its own, or as a copy of this one, which starts at once.

A copy has its own arguments, variables, folder and standard streams, and ends with a code of its
own. All modules are loaded before, pandas among them, which the program does without: commands for
which that matters, and those that start Spark, need a process of their own. What such a command
does with its session can be run here, in the session of the tests.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from unittest import mock

from typer.testing import CliRunner

from cepheid.interfaces import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(sys.executable).with_name("cepheid")


def run(
    *arguments: object, stdin: str | bytes = "", timeout: int = 240, own: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command; its output is decoded, whatever it was given."""
    words = [str(PROGRAM), *map(str, arguments)]
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    if not own and not cli._needs_pandas(words):
        return _run_copy(words, data)
    done = subprocess.run(words, input=data, capture_output=True, check=False, timeout=timeout)
    return subprocess.CompletedProcess(
        words, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def run_in(spark: SparkSession, *arguments: object, stdin: str = "") -> str:
    """Run a command with a session that is there already, not with one of its own; it succeeds."""

    @contextlib.contextmanager
    def started(
        _master: str | None = None, *, packages: str | None = None, **_java: bool
    ) -> Iterator[object]:
        # How Java compiles was decided when the session of the tests began.
        assert packages is None
        yield spark

    with mock.patch("cepheid.spark.session.session", started):
        done = CliRunner().invoke(
            cli.app.typer(), [*map(str, arguments)], input=stdin, catch_exceptions=False
        )
    assert done.exit_code == 0, done.output
    return done.stdout


def _run_copy(words: Sequence[str], data: bytes) -> subprocess.CompletedProcess[str]:
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as complained,
    ):
        given.write(data)
        given.seek(0)
        files = (given.fileno(), printed.fileno(), complained.fileno())
        code = wait_for(start_copy(words, files))
        printed.seek(0)
        complained.seek(0)
        output = (printed.read().decode(), complained.read().decode())
    return subprocess.CompletedProcess(words, code, *output)


def start_copy(
    words: Sequence[str], files: tuple[int, int, int], variables: Mapping[str, str] | None = None
) -> int:
    """Start a command in a copy of this process, with its standard streams; return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons warn of threads, which the copy lacks.
        process = os.fork()
    if process == 0:
        _be_program(words, files, variables or {})
    return process


def wait_for(process: int) -> int:
    """Return the code that a copy ends with."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _be_program(
    words: Sequence[str], files: tuple[int, int, int], variables: Mapping[str, str]
) -> NoReturn:
    """Do what a new process would do, and end without what tests do at their ends."""
    code = 70
    gc.freeze()  # What tests left behind may wait for threads that the copy lacks.
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        os.environ.update(variables)
        logging.getLogger().handlers.clear()
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", ResourceWarning)
        sys.argv = list(words)
        cli.main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
