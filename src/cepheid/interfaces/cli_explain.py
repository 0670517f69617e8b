"""``cepheid explain``: print plans, what running them does, or what a diagnostic code means."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cepheid.errors import CepheidError
from cepheid.interfaces.catalogue import explain_code, is_code
from cepheid.interfaces.cli_input import (
    ENGINES,
    WrongUseError,
    check_engine,
    compile_text,
    find_rules,
    given_text,
    is_sql,
    read_columns,
    refuse_options,
)
from cepheid.interfaces.cli_options import (
    FormatOption,
    InputFormatOption,
    MasterOption,
    RulesOption,
    SchemaOption,
    TextOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import say, show
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules, run_fitting
from cepheid.interfaces.rules import Place
from cepheid.interfaces.standard_input import standard_input
from cepheid.workloads import Workload


def explain(
    file: Annotated[
        str | None, Argument(help="A query file, - for standard input, or a code.")
    ] = None,
    text: TextOption = None,
    rules: RulesOption = None,
    schema: SchemaOption = None,
    format_: Annotated[
        str | None,
        Option("--format", help="text (the default), mermaid (a flowchart) or json."),
    ] = None,
    engine: Annotated[
        str | None,
        Option(help="local (the default), or how it runs on: spark or gpu (of this machine)."),
    ] = None,
    inputs: Annotated[
        list[str] | None, Option("--input", help="Events, with --analyze or --engine spark.")
    ] = None,
    analyze: Annotated[
        bool,
        Option(
            "--analyze", help="Run the query: events read and kept, state, rows, seconds, bytes."
        ),
    ] = False,
    changes: Annotated[
        bool, Option("--changes", help="Add how rows follow a table that changes.")
    ] = False,
    input_format: InputFormatOption = None,
    master: MasterOption = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Print the plan of a query or of rules with all reasons, or what a diagnostic code means."""
    check_engine(engine or "local", (*ENGINES, "gpu"))
    if file is None and text is None and rules is None:
        message = "name a query file or a code, a query with -q, or a folder of rules with --rules"
        raise WrongUseError(message)
    if file is not None and is_code(file) and not Path(file).exists():
        page = explain_code(file)
        if page is None:
            message = f"there is no diagnostic {file.upper()}; docs/errors.md lists all codes"
            raise WrongUseError(message)
        given = {"format": format_, "engine": engine, "schema": schema, "input": inputs}
        refuse_options("a code is no query", **given, analyze=analyze, changes=changes)
        show(page)
        return
    events = EventColumns(time, type_, time_unit, time_format)
    if rules is not None:
        why = "what rules share is told in words"
        refuse_options(why, format=format_, query=text, changes=changes)
    costs = engine == "spark" and rules is None
    if not analyze:
        why = "it is for --analyze"
        refuse_options(why, **{"input": None if costs else inputs, "input-format": input_format})
        refuse_options("it is for --analyze", master=master)
        if rules is not None:
            refuse_options("what rules share is told in words", engine=engine)
            columns = read_columns(schema)
            _tell_of_rules(find_rules(rules, file), events, lambda fit: fit.explain(schema=columns))
            return
        query_text, name = given_text(file, text)
        columns = read_columns(schema)
        compiled = compile_text(query_text, name, time, type_, columns, time_unit, time_format)
        _show_plan(compiled, name, format_ or "text", engine or "local", inputs, changes=changes)
        return
    refuse_options("--input has the columns, and numbers are told in words", schema=schema)
    refuse_options("numbers are told in words", format=format_)
    refuse_options("--analyze runs the query over events", changes=changes)
    _check_places(inputs, engine, master)
    if rules is not None:
        found = find_rules(rules, file)
        with standard_input(inputs or [], input_format, is_query=False) as read:
            _tell_of_rules(found, events, lambda fit: _analyzed(fit, read, engine, master))
        return
    query_text, name = given_text(file, text)
    asked: Any = query_text
    if not is_sql(query_text):
        asked = compile_text(query_text, name, time, type_, None, time_unit, time_format)
    with standard_input(inputs or [], input_format, is_query=file == "-") as read:
        try:
            show(_analyzed(asked, read, engine, master))
        except CepheidError as error:
            error.file = name
            raise


def _tell_of_rules(place: Place, events: EventColumns, told: Callable[[Workload], str]) -> None:
    """Print what a function tells of rules; rules with mistakes are refused alone."""
    ready = ready_rules(place, events)
    refusals = Refusals(ready)
    show(run_fitting(ready, told, refusals))
    refusals.finish()


def _show_plan(
    compiled: Any,
    name: str,
    format_: str,
    engine: str,
    inputs: list[str] | None,
    *,
    changes: bool,
) -> None:
    if format_ not in ("text", "mermaid", "json"):
        message = f"--format is text, mermaid or json, not {format_}"
        raise WrongUseError(message)
    if len(inputs or ()) > 1:
        message = "--input may be given only once with --engine spark"
        raise WrongUseError(message)
    events = inputs[0] if inputs else None
    shown = compiled.explain(format=format_, engine=engine, events=events, changes=changes)
    if format_ != "text":
        say(shown)
        return
    # A plan knows no files, so its warnings speak of the query.
    place = f"--> {name}:"
    show(re.sub(r"(?m)(?<=^ )( *)--> query:", lambda match: match[1] + place, shown))


def _check_places(inputs: list[str] | None, engine: str | None, master: str | None) -> None:
    if not inputs:
        message = "--analyze runs the query: name its events with --input"
        raise WrongUseError(message)
    if engine == "gpu":
        message = "--engine is local or spark with --analyze, not gpu"
        raise WrongUseError(message)
    if master is not None and engine != "spark":
        message = "--master names a Spark cluster: add --engine spark"
        raise WrongUseError(message)


def _analyzed(asked: Any, inputs: list[str], engine: str | None, master: str | None) -> str:
    """Run a query, rules or SQL over files, and describe what it did."""
    told: Callable[[Any], str]
    if isinstance(asked, str):
        from cepheid.interfaces.sql_command import analyze_sql

        def told(spark: Any) -> str:
            return analyze_sql(asked, inputs, spark)
    else:
        from cepheid.interfaces.run_command import named_inputs

        events: Any = inputs[0]
        if not hasattr(asked, "queries"):
            events = named_inputs(asked, inputs)
        if isinstance(events, str) and len(inputs) > 1:
            message = "--input may be given only once, except for a JOIN and tables of SQL"
            raise WrongUseError(message)

        def told(spark: Any) -> str:
            return str(asked.explain(events=events, spark=spark, analyze=True))

    if engine != "spark":
        return told(None)
    from cepheid.spark import session as spark_session
    from cepheid.spark.failures import clear_failures

    with spark_session.session(master) as spark, clear_failures():
        return told(spark)
