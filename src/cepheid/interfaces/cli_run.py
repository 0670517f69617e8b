"""Run the queries of ``cepheid run`` over inputs, and print or write the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cepheid.errors import CepheidError, visible
from cepheid.expressions.own import all_registered
from cepheid.interfaces.cli_input import WrongUseError, compile_text, is_sql
from cepheid.interfaces.console import complain, say
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules, run_fitting
from cepheid.interfaces.rules import Place

if TYPE_CHECKING:
    import pyarrow as pa

    from cepheid.api import CompiledQuery
    from cepheid.interfaces.chart_file import Drawing
    from cepheid.pictures.shown_times import ShownTimes


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
    chart: Path | None = None
    timeline: Path | None = None
    changes: dict[str, Any] | None = None

    @property
    def shown(self) -> ShownTimes:
        """The way to show times that are whole numbers."""
        # Arrow takes longer to load than checking a query takes.
        from cepheid.pictures.shown_times import ShownTimes

        return ShownTimes(self.time, self.time_unit)

    @property
    def columns(self) -> EventColumns:
        """The columns of events that queries read."""
        return EventColumns(self.time, self.type, self.time_unit, self.time_format)


def check_sql(text: str, name: str) -> None:
    """Check a SQL text; names of columns are checked when it runs."""
    from cepheid.kinds.row_pattern.statement import read_statement

    try:
        read_statement(text, all_registered())
    except CepheidError as error:
        error.file = name
        raise
    say(f"{name}: ok")


def run_rules_over(rules: Place, inputs: list[str], asked: Asked) -> None:
    """Run all rules of a folder or a file over files; rules with mistakes are refused alone."""
    ready = ready_rules(rules, asked.columns)
    refusals = Refusals(ready)
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.run_command import run_rules, write_result

    files = _single(inputs)
    result = run_fitting(
        ready, lambda fit: run_rules(fit, files, asked.master, engine=asked.engine), refusals
    )
    write_result(result, asked.kind, asked.output, asked.shown)
    _draw(result, asked)
    refusals.finish()


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
    _tell_odd(compiled)
    from cepheid.interfaces import run_command as command

    streams = command.named_inputs(compiled, inputs)
    events = _single(inputs) if isinstance(streams, str) else inputs[0]
    on_spark = asked.engine == "spark"
    if asked.changes is not None:
        _write(_over_changes(compiled, events, asked), asked)
    elif compiled.plan.lists_matches and on_spark:
        drawing = _drawing(asked, compiled, events)
        where = (asked.kind, asked.output)
        command.write_matches_with_spark(compiled, events, asked.master, *where, drawing)
        _finish(drawing)
    elif compiled.plan.lists_matches:
        drawing = _drawing(asked, compiled, events)
        command.write_matches(compiled, events, asked.kind, asked.output, drawing)
        _finish(drawing)
    elif on_spark:
        _write(command.run_with_spark(compiled, streams, asked.master), asked, compiled, events)
    else:
        _write(command.run_query(compiled, streams), asked, compiled, events)


def _over_changes(compiled: CompiledQuery, changelog: str, asked: Asked) -> pa.Table:
    from cepheid.interfaces import run_command as command

    if asked.engine == "spark":
        return command.run_with_spark(compiled, changelog, asked.master, asked.changes)
    return command.run_changes(compiled, changelog, asked.changes)


def _tell_odd(compiled: CompiledQuery) -> None:
    """Tell what is odd about a query; what would grow on a live stream does not matter here."""
    for odd in compiled.warnings:
        if odd.code != "W201":
            told = "; ".join([odd.message, *odd.helps])
            complain(f"notice: {visible(told)} ({odd.code})")


def _write(
    result: pa.Table, asked: Asked, compiled: CompiledQuery | None = None, events: str = ""
) -> None:
    """Write a result, draw its chart, and say how to learn why it is empty."""
    from cepheid.interfaces.run_command import offer_why, write_result

    write_result(result, asked.kind, asked.output, asked.shown)
    offer_why(len(result))
    _draw(result, asked, compiled, events)


def _draw(
    result: pa.Table, asked: Asked, compiled: CompiledQuery | None = None, events: str = ""
) -> None:
    if asked.chart is not None or asked.timeline is not None:
        drawing = _drawing(asked, compiled, events)
        drawing.add(result)
        _finish(drawing)


def _drawing(asked: Asked, compiled: CompiledQuery | None = None, events: str = "") -> Drawing:
    from cepheid.interfaces.chart_file import Drawing, Wanted
    from cepheid.pictures.results import columns_of, lanes_of
    from cepheid.pictures.sweeps import swept_of

    if compiled is None:
        return Drawing(Wanted(asked.chart, asked.timeline), asked.shown)
    read = (lambda lanes: columns_of(events, lanes)) if events else None
    plan = compiled.plan
    wanted = Wanted(asked.chart, asked.timeline, lanes_of(plan), read, swept_of(plan))
    return Drawing(wanted, asked.shown)


def _finish(drawing: Drawing) -> None:
    note = drawing.finish()
    if note:
        complain(note)


def _run_sql(text: str, inputs: list[str], asked: Asked) -> None:
    given = (("time", asked.time, "ts"), ("type", asked.type, "type"))
    of_times = (("time-unit", asked.time_unit, "us"), ("time-format", asked.time_format, None))
    for option, value, usual in (*given, *of_times):
        if value != usual:
            message = f"--{option} has no effect here: a MATCH_RECOGNIZE names its own columns"
            raise WrongUseError(message)
    from cepheid.interfaces import sql_command

    _write(sql_command.run_sql(text, inputs, asked.engine, asked.master), asked)


def _single(inputs: list[str]) -> str:
    if len(inputs) > 1:
        message = "--input may be given only once, except for a JOIN of two streams and SQL tables"
        raise WrongUseError(message)
    return inputs[0]
