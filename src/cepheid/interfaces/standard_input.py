"""Events from standard input: they become a file, which every engine reads, and reads twice."""

from __future__ import annotations

import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cepheid.interfaces.cli_input import WrongUseError

FORMATS = {"csv": ".csv", "tsv": ".tsv", "json": ".jsonl", "parquet": ".parquet", "arrow": ".arrow"}
"""What may come, and the end of its file's name."""

HEAD_BYTES = 1 << 16
"""How much is looked at to tell what comes."""


@contextmanager
def standard_input(
    inputs: list[str], format_: str | None, *, is_query: bool
) -> Iterator[list[str]]:
    """Give inputs in which the name of a file stands for ``-``; it is gone afterwards.

    Raises
    ------
    WrongUseError
        If standard input is asked for twice, or what comes is of no known kind.
    """
    places = [place for place, text in enumerate(inputs) if text.rpartition("=")[2] == "-"]
    if format_ is not None and format_ not in FORMATS:
        message = f"--input-format is one of {', '.join(FORMATS)}, not {format_}"
        raise WrongUseError(message)
    if format_ is not None and not places:
        message = "--input-format has no effect here: it is about standard input (--input -), and "
        raise WrongUseError(message + "the names of files tell what they hold")
    if len(places) + is_query > 1:
        message = "standard input is read once: name a file for the query, or give it with -q"
        raise WrongUseError(message)
    if not places:
        yield inputs
        return
    with tempfile.TemporaryDirectory(prefix="cepheid-") as folder:
        given = list(inputs)
        given[places[0]] = inputs[places[0]].removesuffix("-") + _kept(Path(folder), format_)
        yield given


def _kept(folder: Path, format_: str | None) -> str:
    """Write standard input to a file whose name tells what it holds, and return the name."""
    source: BinaryIO = sys.stdin.buffer
    head = source.read(HEAD_BYTES)
    path = folder / f"stdin{ending_of(head, format_)}"
    with path.open("wb") as file:
        file.write(head)
        shutil.copyfileobj(source, file)
    return str(path)


def ending_of(head: bytes, format_: str | None = None) -> str:
    r"""Return the end of a file's name, from what was asked for or from its first bytes.

    Examples
    --------
    >>> ending_of(b'{"ts": 1}\n'), ending_of(b"ts,type\n1,A\n"), ending_of(b"ts\ttype\n")
    ('.jsonl', '.csv', '.tsv')
    """
    packed = ".gz" if head.startswith(b"\x1f\x8b") else ""
    if packed:
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            head = b""
    if format_ is not None:
        return FORMATS[format_] + packed
    if head.startswith(b"PAR1"):
        return ".parquet" + packed
    if head.startswith(b"ARROW1"):
        return ".arrow" + packed
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        message = "nothing came from standard input: pipe events into the command"
        raise WrongUseError(message)
    if text.startswith(b"["):
        message = "standard input is one JSON array: write one event a line, as `jq -c '.[]'` does"
        raise WrongUseError(message)
    if text.startswith(b"{"):
        return ".jsonl" + packed
    first = text.partition(b"\n")[0]
    return (".tsv" if first.count(b"\t") > first.count(b",") else ".csv") + packed
