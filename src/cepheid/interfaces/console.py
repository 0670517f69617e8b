"""Print results on standard output, and messages for people on standard error.

Everything that a command prints goes through here. Names and values come from data, and could hold
control sequences that clear the screen, set the window title or hide text. So texts for people
(messages, plans, tables) are always escaped, and rows as CSV or JSON are escaped on a terminal. In
files and pipes, rows are data and stay unchanged.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.text import Text
from rich.theme import Theme

from cepheid.errors import visible

KEPT = "\n\t"
"""Characters that texts of several lines keep; values inserted into them have none."""


class _DiagnosticHighlighter(RegexHighlighter):
    """Colours for diagnostics and plans on a terminal; plain text everywhere else."""

    base_style = "cepheid."
    highlights = (
        r"(?m)(?P<error>^error\[\w+\].*)$",
        r"(?m)(?P<warning>^warning\[\w+\].*)$",
        r"(?m)^\s*\| *(?P<caret>[\^-]+.*)$",
        r"(?m)(?P<help>= help: .*)$",
    )


_THEME = Theme(
    {
        "cepheid.error": "bold red",
        "cepheid.warning": "bold yellow",
        "cepheid.caret": "cyan",
        "cepheid.help": "green",
    }
)


def console_of(*, stderr: bool) -> Console:
    """Create a console with the colours of diagnostics."""
    # soft_wrap keeps long lines whole, so that carets stay where they belong.
    return Console(
        stderr=stderr, highlighter=_DiagnosticHighlighter(), theme=_THEME, soft_wrap=True
    )


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


def cell(value: object) -> Text:
    """Format a value for a table cell: one line, with brackets escaped for Rich."""
    return Text(visible(str(value)))


def _print(text: str, *, stderr: bool) -> None:
    console = console_of(stderr=stderr)
    if console.is_terminal:
        console.print(text, markup=False, emoji=False)
    else:
        (sys.stderr if stderr else sys.stdout).write(f"{text}\n")
