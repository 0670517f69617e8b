"""The command line: ``cepheid check``, ``explain``, ``fmt`` and ``demo``.

Results go to standard output, diagnostics to standard error. Exit codes: 0, 1 for a query or data
at fault, 2 for wrong use of the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.table import Table
from rich.theme import Theme

import cepheid
from cepheid.api import CompiledQuery, query
from cepheid.errors import CepheidError, DataError, Diagnostic, render_diagnostics
from cepheid.interfaces.catalogue import bundled_queries, explain_code, is_code
from cepheid.language.formatter import format_text

EXIT_FAULT = 1
EXIT_USAGE = 2

app = typer.Typer(
    name="cepheid",
    help="Find, count and aggregate patterns in streams of events.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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

FileArgument = Annotated[str, typer.Argument(help="A query file, or - for standard input.")]
TimeOption = Annotated[str, typer.Option(help="The column that holds an event's time.")]
TypeOption = Annotated[str, typer.Option(help="The column that holds an event's type.")]
SchemaOption = Annotated[
    Path | None,
    typer.Option(help="A Parquet, Arrow, CSV or JSON lines file that has the events' columns."),
]


def _console(*, stderr: bool) -> Console:
    # soft_wrap keeps long lines whole, so that carets stay where they belong.
    return Console(
        stderr=stderr, highlighter=_DiagnosticHighlighter(), theme=_THEME, soft_wrap=True
    )


def _say(text: str) -> None:
    _console(stderr=False).print(text, markup=False, emoji=False)


def _complain(text: str) -> None:
    _console(stderr=True).print(text, markup=False, emoji=False)


def _fail_usage(message: str) -> NoReturn:
    _complain(f"cepheid: {message}")
    raise typer.Exit(EXIT_USAGE)


def _read(file: str) -> tuple[str, str]:
    """Return a query text and the name that diagnostics give it."""
    name = "<stdin>" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        _fail_usage(f"could not read {name}: {error.strerror or error}")
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"`{name}` is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}"
        helps = ("save the file with the encoding UTF-8",)
        raise DataError([Diagnostic("E502", message, helps=helps)]) from None


def _compile(file: str, time: str, type_: str, schema: Path | None = None) -> CompiledQuery:
    text, name = _read(file)
    columns = _read_schema(schema) if schema is not None else None
    try:
        return query(text, time=time, type=type_, schema=columns)
    except CepheidError as error:
        error.file = name
        raise


def _read_schema(path: Path) -> object:
    # Arrow takes longer to load than everything else together, and few calls need it.
    from cepheid.interfaces.schema_files import read_file_schema

    if not path.exists():
        _fail_usage(f"could not read {path}: no such file")
    return read_file_schema(path)


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(help="Query files, or - for standard input.")],
    schema: SchemaOption = None,
    time: TimeOption = "ts",
    type_: Annotated[str, typer.Option("--type", help="The column of an event's type.")] = "type",
) -> None:
    """Check queries and print every mistake."""
    faults = 0
    for file in files:
        try:
            compiled = _compile(file, time, type_, schema)
        except CepheidError as error:
            _complain(str(error))
            faults += 1
            continue
        if compiled.warnings:
            _complain(render_diagnostics(compiled.warnings, compiled.text, file=file))
        _say(f"{'<stdin>' if file == '-' else file}: ok")
    if faults:
        raise typer.Exit(EXIT_FAULT)


@app.command()
def explain(
    file: Annotated[str, typer.Argument(help="A query file, - for standard input, or a code.")],
    schema: SchemaOption = None,
    format_: Annotated[
        str, typer.Option("--format", help="text, mermaid (a flowchart) or json (the plan).")
    ] = "text",
    time: TimeOption = "ts",
    type_: Annotated[str, typer.Option("--type", help="The column of an event's type.")] = "type",
) -> None:
    """Print the plan of a query with all reasons, or what a diagnostic code means."""
    if is_code(file) and not Path(file).exists():
        text = explain_code(file)
        if text is None:
            _fail_usage(f"there is no diagnostic {file.upper()}; docs/errors.md lists all codes")
        _say(text)
        return
    if format_ not in ("text", "mermaid", "json"):
        _fail_usage(f"--format is text, mermaid or json, not {format_}")
    _say(_compile(file, time, type_, schema).explain(format=format_))


@app.command()
def fmt(
    file: FileArgument,
    write: Annotated[bool, typer.Option("--write", help="Change the file.")] = False,
    check_only: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit with 1 if the layout differs.")
    ] = False,
) -> None:
    """Print a query in canonical layout; comments stay above the clause that they stand in."""
    text, name = _read(file)
    try:
        formatted = format_text(text) + "\n"
    except CepheidError as error:
        error.file = name
        raise
    if check_only:
        if formatted != text:
            _complain(f"{name}: would change")
            raise typer.Exit(EXIT_FAULT)
    elif write:
        if file == "-":
            _fail_usage("--write needs a file")
        if formatted != text:
            _replace_file(Path(file), formatted)
    else:
        _say(formatted.rstrip("\n"))


def _replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@app.command()
def demo() -> None:
    """Check and explain the queries of the papers that Cepheid stands on."""
    table = Table(title="The papers' queries, as Cepheid plans them", title_justify="left")
    for heading in ("query", "semantics", "evaluator", "granularity", "per event"):
        table.add_column(heading, no_wrap=True)
    compiled = {name: query(text) for name, text in bundled_queries()}
    for name, planned in compiled.items():
        choice = planned.plan.choice
        semantics = planned.plan.semantics.value
        table.add_row(name, semantics, choice.evaluator, choice.granularity, choice.time)
    console = _console(stderr=False)
    console.print(table)
    shown = compiled["greta-q3"]
    _say(f"\n{shown.format()}\n\n{shown.explain()}")


def _print_version(wanted: bool) -> None:
    if wanted:
        _say(f"cepheid {cepheid.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # the callback does the work
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    return


def main() -> None:
    """Run the command line; a mistake in a query is a message, never a traceback."""
    try:
        app()
    except CepheidError as error:
        _complain(str(error))
        sys.exit(EXIT_FAULT)
