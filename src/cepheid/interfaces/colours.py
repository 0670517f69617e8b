"""Colours for people who watch a terminal; only those commands load Rich that need it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text
from rich.theme import Theme

from cepheid.errors import visible


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


def cell(value: object) -> Text:
    """Format a value for a table cell: one line, with brackets escaped for Rich."""
    return Text(visible(str(value)))


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that a command works, for how long, and a text that can be replaced."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        task = shown.add_task(text, total=None)
        yield lambda text: shown.update(task, description=text)
