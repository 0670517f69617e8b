"""What the commands print: results on standard output, messages for people on standard error."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme


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
    """Return a console with the colours of diagnostics."""
    # soft_wrap keeps long lines whole, so that carets stay where they belong.
    return Console(
        stderr=stderr, highlighter=_DiagnosticHighlighter(), theme=_THEME, soft_wrap=True
    )


def say(text: str) -> None:
    """Print a result as it is: Rich would expand tabs and drop control characters."""
    sys.stdout.write(f"{text}\n")


def show(text: str) -> None:
    """Print a result for people, in colours on a terminal."""
    console = console_of(stderr=False)
    if console.is_terminal:
        console.print(text, markup=False, emoji=False)
    else:
        say(text)


def complain(text: str) -> None:
    """Print a message for people on standard error, in colours on a terminal."""
    console = console_of(stderr=True)
    if console.is_terminal:
        console.print(text, markup=False, emoji=False)
    else:
        sys.stderr.write(f"{text}\n")
