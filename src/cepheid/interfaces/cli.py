"""The command line: ``cepheid check``, ``explain``, ``run``, ``stream``, ``store`` and others.

Results go to standard output, diagnostics to standard error. EXIT_CODES is what ``--help`` says of
the codes with which commands end; docs/command-line.md tells the same.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import cepheid
from cepheid.errors import CepheidError, render_diagnostics, visible
from cepheid.interfaces.cli_detect import detect
from cepheid.interfaces.cli_discover import discover
from cepheid.interfaces.cli_explain import explain
from cepheid.interfaces.cli_input import (
    WrongUseError,
    check_engine,
    compile_text,
    find_rules,
    given_changes,
    given_text,
    import_functions,
    is_sql,
    name_of,
    read_columns,
    read_text,
    refuse_options,
    result_kind,
)
from cepheid.interfaces.cli_lsp import lsp
from cepheid.interfaces.cli_machine import calibrate, doctor, warm
from cepheid.interfaces.cli_mcp import mcp
from cepheid.interfaces.cli_options import (
    ChangesOption,
    EngineOption,
    FileArgument,
    FormatOption,
    IdOption,
    InputFormatOption,
    InputsOption,
    MasterOption,
    QueryArgument,
    RulesOption,
    SchemaOption,
    TextOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.cli_rules import backtest, check_rules
from cepheid.interfaces.cli_run import Asked, check_sql, run_rules_over, run_text_over
from cepheid.interfaces.cli_serve import serve
from cepheid.interfaces.cli_store import store_app
from cepheid.interfaces.cli_stream import stream
from cepheid.interfaces.cli_translate import translate
from cepheid.interfaces.cli_why import why
from cepheid.interfaces.commands import Argument, Commands, Option
from cepheid.interfaces.console import complain, say
from cepheid.interfaces.rule_queries import EventColumns
from cepheid.interfaces.standard_input import standard_input
from cepheid.interfaces.without_pandas import hide_pandas
from cepheid.language.formatter import format_text
from cepheid.options import OptionError

EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_CODES = (
    "Exit codes: 0 all went well; 1 a query, a rule or data is at fault, or whoever read the "
    "output stopped early; 2 the command was used wrongly."
)

app = Commands(
    name="cepheid",
    help="Find, count and aggregate patterns in streams of events.",
    epilog=EXIT_CODES,
)
app.add_group(store_app, name="store")


def check(
    files: Annotated[
        list[str] | None, Argument(help="Query files, or - for standard input.")
    ] = None,
    text: TextOption = None,
    rules: RulesOption = None,
    schema: SchemaOption = None,
    input_: Annotated[
        str | None,
        Option("--input", help="Files of events that are read, to tell what is odd there."),
    ] = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Check queries and print every mistake; with --input also what is odd about the events."""
    if input_ is not None:
        refuse_options("--input has the columns, too", schema=schema)
    if rules is not None:
        refuse_options("--rules takes the place of a query", query=text)
        found = find_rules(rules, files[0] if files else None)
        events = EventColumns(time, type_, time_unit, time_format)
        check_rules(found, events, read_columns(schema), input_)
        return
    if (text is None) is (not files):
        message = "name query files, give a query with -q, or a folder of them with --rules"
        raise WrongUseError(message)
    columns = read_columns(schema)
    code = 0
    named: list[str | None] = [None] if files is None else [*files]
    for file in named:
        try:
            written, name = given_text(file, text)
            if is_sql(written):
                check_sql(written, name)
                continue
            compiled = compile_text(written, name, time, type_, columns, time_unit, time_format)
            odd: list[str] = []
            if input_ is not None:
                from cepheid.interfaces.run_command import look_at_files

                compiled, odd = look_at_files(compiled, input_)
        except (CepheidError, WrongUseError) as error:
            if isinstance(error, CepheidError):
                error.file = "query" if file is None else name_of(file)
            code = max(code, _report(error))
            continue
        for message in odd:
            complain(f"notice: {message}")
        if compiled.warnings:
            complain(render_diagnostics(compiled.warnings, compiled.text, file=name))
        say(f"{name}: ok")
    if code:
        raise SystemExit(code)


def run(
    inputs: InputsOption,
    file: QueryArgument = None,
    text: TextOption = None,
    rules: RulesOption = None,
    input_format: InputFormatOption = None,
    output: Annotated[Path | None, Option(help="Write the result to this file.")] = None,
    format_: Annotated[str, Option("--format", help="table, csv, json (lines) or parquet.")] = "",
    chart: Annotated[
        Path | None, Option(help="Also draw the result: a file .png, .svg or .html.")
    ] = None,
    timeline: Annotated[
        Path | None,
        Option(help="Also draw matches, situations and events over time: .png, .svg or .html."),
    ] = None,
    changes: ChangesOption = None,
    id_: IdOption = None,
    engine: EngineOption = "local",
    master: MasterOption = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Run a query, or all queries of a folder, over files and print or write the result.

    A .sql file has a SELECT, or SQL with MATCH_RECOGNIZE.
    """
    check_engine(engine)
    if master is not None and engine != "spark":
        message = "--master names a Spark cluster: add --engine spark"
        raise WrongUseError(message)
    kind = result_kind(format_, output)
    if chart is not None or timeline is not None:
        from cepheid.interfaces.chart_file import check_chart

        check_chart(chart)
        check_chart(timeline, "--timeline")
    about = (time, type_, time_unit, time_format, chart, timeline, given_changes(changes, id_))
    asked = Asked(engine, master, kind, output, *about)
    if rules is not None:
        refuse_options("--rules takes the place of a query", query=text, changes=changes)
        found = find_rules(rules, file)
        with standard_input(inputs, input_format, is_query=False) as given:
            run_rules_over(found, given, asked)
        return
    query_text, name = given_text(file, text)
    with standard_input(inputs, input_format, is_query=file == "-") as given:
        run_text_over(query_text, name, given, asked)


def fmt(
    file: FileArgument,
    write: Annotated[bool, Option("--write", help="Change the file.")] = False,
    check_only: Annotated[
        bool, Option("--check", help="Print nothing; exit with 1 if the layout differs.")
    ] = False,
) -> None:
    """Print a query in canonical layout; comments stay with their clauses."""
    if write and check_only:
        message = "--write changes the file and --check does not: give one of them"
        raise WrongUseError(message)
    text, name = read_text(file)
    try:
        formatted = format_text(text) + "\n"
    except CepheidError as error:
        error.file = name
        raise
    if check_only:
        if formatted != text:
            complain(f"{name}: would change")
            raise SystemExit(EXIT_FAULT)
    elif write:
        if file == "-":
            message = "--write needs a file"
            raise WrongUseError(message)
        if formatted != text:
            _replace_file(Path(file), formatted)
    else:
        say(formatted.rstrip("\n"))


def _replace_file(path: Path, text: str) -> None:
    """Replace a file atomically; links stay links, and its mode stays."""
    temporary = None
    try:
        target = path.resolve(strict=True)
        mode = target.stat().st_mode
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=".cepheid-", delete=False
        ) as file:
            temporary = Path(file.name)
            file.write(text.encode())
        temporary.chmod(mode)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        message = f"could not write {name_of(str(path))}: {error.strerror or error}"
        raise WrongUseError(message) from None


def demo(
    page: Annotated[Path, Option(help="Where the page with the pictures goes.")] = Path(
        "demo.html"
    ),
) -> None:
    """Answer four questions about bundled events, with pictures here and on a page."""
    # Arrow takes longer to load than most commands run.
    from cepheid.interfaces.demo import tell_story

    tell_story(page)


# The order in which help lists them: what people need first.
for command in (
    demo,
    run,
    check,
    why,
    explain,
    fmt,
    serve,
    stream,
    backtest,
    detect,
    discover,
    translate,
    doctor,
    warm,
    calibrate,
    lsp,
    mcp,
):
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"cepheid {cepheid.__version__}")
        raise SystemExit(0)


@app.before_all
def _options(
    version: Annotated[  # the callback does the work
        bool,
        Option("--version", help="Print the version.", callback=_print_version),
    ] = False,
    functions: Annotated[
        list[str] | None,
        Option("--functions", help="A Python module to import, which defines functions."),
    ] = None,
) -> None:
    for name in functions or ():
        import_functions(name)


def _needs_pandas(arguments: list[str]) -> bool:
    """Check whether a command may start Spark, or import a module that somebody wrote."""
    command = next((word for word in arguments[1:] if not word.startswith("-")), "")
    asked = any(
        "spark" in word or word == "--stream" or word.startswith("--functions")
        for word in arguments
    )
    return asked or command in {"stream", "demo", "calibrate"}


def _report(error: CepheidError | WrongUseError) -> int:
    """Print the error and choose the exit code."""
    if isinstance(error, OptionError):
        # Arguments of Python are options here: time_unit is --time-unit.
        told = error.diagnostics[0]
        # Helps that speak of Python are for others.
        helps = [help_ for help_ in told.helps if "cepheid." not in help_]
        message = ": ".join([told.message, *helps])
        named = re.match(
            r"(time_unit|time_format|time|type|watermark|max_ahead|idle|allowed_lateness) ", message
        )
        option = f"--{named[1].replace('_', '-')}" if named else ""
        error = WrongUseError(option + message[named.end(1) :] if named else message)
    if isinstance(error, CepheidError):
        complain(str(error))
        return EXIT_FAULT
    complain(f"cepheid: {visible(str(error))}")
    return EXIT_USAGE


def _call(words: list[str]) -> int:
    """Run a command, and return the exit code."""
    call = None if COMPLETION in os.environ else app.find(words)
    if call is not None:
        call()
        return 0
    # Takes longer to load than a small query takes.
    import typer

    # The exception of Typer for usage errors; its name differs between versions.
    wrong_words: Any = typer.BadParameter.__mro__[2]
    try:
        return app.typer()(words, standalone_mode=False) or 0
    except wrong_words as error:
        # Typer would print it itself, and names of files with it, which may steer a terminal.
        shown = io.StringIO()
        error.show(shown)
        complain(shown.getvalue().rstrip("\n"))
        return int(error.exit_code)
    except typer.Abort:
        return EXIT_FAULT


COMPLETION = "_CEPHEID_COMPLETE"
"""The variable by which a shell asks Typer how a word goes on."""


def main() -> None:
    """Run the command line; a mistake in a query is a message, never a traceback."""
    if not _needs_pandas(sys.argv):
        hide_pandas()
    try:
        try:
            sys.exit(_call(sys.argv[1:]))
        except (CepheidError, WrongUseError) as error:
            sys.exit(_report(error))
        finally:
            # What is still buffered meets a closed pipe here, not when Python shuts down. A server
            # of a protocol has closed its output itself.
            if not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python would try once more when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAULT)
