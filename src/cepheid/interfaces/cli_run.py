"""Run the queries of ``cepheid run`` over inputs, and print or write the results."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cepheid.errors import CepheidError
from cepheid.interfaces.cli_input import WrongUseError, compile_text, is_sql
from cepheid.interfaces.console import say
from cepheid.workloads import Workload


class Asked(NamedTuple):
    """The options of a run: engine, destination of the result, and columns of events."""

    engine: str
    master: str | None
    kind: str
    output: Path | None
    time: str
    type: str
    time_unit: str
    time_format: str | None


def check_sql(text: str, name: str) -> None:
    """Check a SQL text; names of columns are checked when it runs."""
    from cepheid.kinds.row_pattern.statement import read_statement

    try:
        read_statement(text)
    except CepheidError as error:
        error.file = name
        raise
    say(f"{name}: ok")


def run_rules_over(rules: Workload, inputs: list[str], asked: Asked) -> None:
    """Run all queries of a folder over files."""
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.run_command import run_rules, write_result

    result = run_rules(rules, _single(inputs), asked.master, engine=asked.engine)
    write_result(result, asked.kind, asked.output)


def run_text_over(text: str, name: str, inputs: list[str], asked: Asked) -> None:
    """Run a query, or SQL with MATCH_RECOGNIZE, over files; diagnostics show the name."""
    try:
        if is_sql(text):
            _run_sql(text, inputs, asked)
        else:
            _run_query(text, name, inputs, asked)
    except CepheidError as error:
        error.file = name
        raise


def _run_query(text: str, name: str, inputs: list[str], asked: Asked) -> None:
    unit, form = asked.time_unit, asked.time_format
    compiled = compile_text(text, name, asked.time, asked.type, None, unit, form)
    from cepheid.interfaces import run_command as command

    streams = command.named_inputs(compiled, inputs)
    events = _single(inputs) if isinstance(streams, str) else inputs[0]
    on_spark = asked.engine == "spark"
    if compiled.plan.lists_matches and on_spark:
        command.write_matches_with_spark(compiled, events, asked.master, asked.kind, asked.output)
    elif compiled.plan.lists_matches:
        command.write_matches(compiled, events, asked.kind, asked.output)
    elif on_spark:
        result = command.run_with_spark(compiled, streams, asked.master)
        command.write_result(result, asked.kind, asked.output)
        command.offer_why(len(result))
    else:
        result = command.run_query(compiled, streams)
        command.write_result(result, asked.kind, asked.output)
        command.offer_why(len(result))


def _run_sql(text: str, inputs: list[str], asked: Asked) -> None:
    given = (("time", asked.time, "ts"), ("type", asked.type, "type"))
    of_times = (("time-unit", asked.time_unit, "us"), ("time-format", asked.time_format, None))
    for option, value, usual in (*given, *of_times):
        if value != usual:
            message = f"--{option} has no effect here: a MATCH_RECOGNIZE names its own columns"
            raise WrongUseError(message)
    from cepheid.interfaces import sql_command
    from cepheid.interfaces.run_command import offer_why, write_result

    result = sql_command.run_sql(text, inputs, asked.engine, asked.master)
    write_result(result, asked.kind, asked.output)
    offer_why(len(result))


def _single(inputs: list[str]) -> str:
    if len(inputs) > 1:
        message = "--input may be given only once, except for a JOIN of two streams and SQL tables"
        raise WrongUseError(message)
    return inputs[0]
