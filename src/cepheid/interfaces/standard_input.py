"""Copy events from standard input to a temporary file, which every engine can read twice."""

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
"""The formats of standard input, and the ends of file names for them."""

HEAD_BYTES = 1 << 16
"""The number of bytes that are read to detect the format."""


@contextmanager
def standard_input(
    inputs: list[str], format_: str | None, *, is_query: bool
) -> Iterator[list[str]]:
    """Replace ``-`` in inputs by the name of a temporary file, which is deleted afterwards.

    Raises
    ------
    WrongUseError
        If standard input is used twice, or its format is unknown.
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
    """Copy standard input to a file whose name tells the format, and return the name."""
    source: BinaryIO = sys.stdin.buffer
    head = source.read(HEAD_BYTES)
    path = folder / f"stdin{ending_of(head, format_)}"
    with path.open("wb") as file:
        file.write(head)
        shutil.copyfileobj(source, file)
    return str(path)


def ending_of(head: bytes, format_: str | None = None) -> str:
    r"""Choose the end of a file's name, from the option or from the first bytes.

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
