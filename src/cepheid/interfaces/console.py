"""Print results on standard output, and messages for people on standard error.

Everything that a command prints goes through here. Names and values come from data, and could hold
control sequences that clear the screen, set the window title or hide text. So texts for people
(messages, plans, tables) are always escaped, and rows as CSV or JSON are escaped on a terminal. In
files and pipes, rows are data and stay unchanged.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cepheid.errors import visible

ROWS_SHOWN_MAX = 50
"""Rows of a result that are printed as a table."""
KEPT = "\n\t"
"""Characters that texts of several lines keep; values inserted into them have none."""


def say(text: str) -> None:
    """Print a result unchanged: Rich would expand tabs and drop control characters.

    In a pipe or a file it is data. On a terminal, control characters are escaped.
    """
    sys.stdout.write(f"{_for_terminal(text)}\n")


def say_data(data: bytes) -> None:
    """Write rows of a result, which are UTF-8 text, to standard output; see ``say``."""
    if sys.stdout.isatty():
        sys.stdout.write(_for_terminal(data.decode("utf-8", "surrogateescape")))
    else:
        sys.stdout.buffer.write(data)


class StandardOutput(io.RawIOBase):
    """Standard output as a file object for rows; it writes whole lines."""

    def writable(self) -> bool:
        """Return True: rows are written here."""
        return True

    def write(self, data: Any) -> int:
        """Write rows; Arrow passes its own buffers."""
        whole = bytes(data)
        say_data(whole)
        return len(whole)


def _for_terminal(text: str) -> str:
    return visible(text, keep=KEPT) if sys.stdout.isatty() else text


def show(text: str) -> None:
    """Print a result for people, in colours on a terminal."""
    _print(visible(text, keep=KEPT), stderr=False)


_ARGUMENT = re.compile(
    r"`cepheid\.query\(\.\.\., (time|type|time_unit|time_format)=(\.\.\.|None|\"\w+\"|'[^']+')\)`"
)


def complain(text: str) -> None:
    """Print a message for people on standard error, in colours on a terminal."""
    _print(visible(_ARGUMENT.sub(_option, text), keep=KEPT), stderr=True)


def _option(argument: re.Match[str]) -> str:
    """Write an argument of Python as the option of the command line that stands for it."""
    name, value = argument.groups()
    kept = name == "time_format" and value != "..."  # Formats have blanks.
    shown = value if kept else {"...": name.upper(), "None": "''"}.get(value, value.strip("\"'"))
    return f"`--{name.replace('_', '-')} {shown}`"


def notify(notices: Iterable[warnings.WarningMessage]) -> None:
    """Print the warnings of Cepheid; warnings of other libraries are left out."""
    for notice in notices:
        if issubclass(notice.category, UserWarning):
            complain(f"notice: {visible(str(notice.message))}")


def is_terminal(*, stderr: bool) -> bool:
    """Check whether people watch a stream, as Rich does, which takes longer to load."""
    stream = sys.stderr if stderr else sys.stdout
    return stream.isatty() or any(os.environ.get(name) for name in _RICH_VARIABLES)


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that a command works; yield the function that replaces the text."""
    if not is_terminal(stderr=True):
        yield lambda _: None
        return
    from cepheid.interfaces.colours import spinner

    with spinner(text) as tell:
        log, listener = logging.getLogger("cepheid"), _Listener(tell)
        log.addHandler(listener)
        try:
            yield tell
        finally:
            log.removeHandler(listener)


class _Listener(logging.Handler):
    """Tells what the library logs while a command works, as that kernels are compiled."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Tell the message of a record."""
        self._tell(visible(record.getMessage()))


_RICH_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""The variables by which users make Rich believe in a terminal."""


def _print(text: str, *, stderr: bool) -> None:
    if is_terminal(stderr=stderr):
        # Takes longer to load than most commands run.
        from cepheid.interfaces.colours import console_of

        console = console_of(stderr=stderr)
        if console.is_terminal:
            console.print(text, markup=False, emoji=False)
            return
    (sys.stderr if stderr else sys.stdout).write(f"{text}\n")
