"""Commands about rules: ``cepheid check --rules`` and ``cepheid backtest``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cepheid.errors import CepheidError, render_diagnostics
from cepheid.interfaces.cli_input import (
    WrongUseError,
    compile_text,
    find_rules,
    read_text,
    refuse_options,
    result_kind,
)
from cepheid.interfaces.cli_options import (
    FormatOption,
    InputFormatOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import complain, notify, say, working
from cepheid.interfaces.logs import UNNAMED, Logs, inputs_of
from cepheid.interfaces.rule_parameters import Parameters, read_parameters
from cepheid.interfaces.rule_queries import EventColumns, Ready, Refusals, ready_rules
from cepheid.interfaces.rules import Place
from cepheid.interfaces.standard_input import standard_input

if TYPE_CHECKING:
    from cepheid.events.time_formats import TextTimes
    from cepheid.jobs.sources import EventSource
    from cepheid.store.event_store import EventStore


def check_rules(place: Place, events: EventColumns, columns: object, inputs: str | None) -> None:
    """Check all rules, those that are off, too; with events, also whether their columns fit."""
    ready = ready_rules(place, events, schema=columns, also_off=True)
    refusals = Refusals(ready)
    odd: dict[str, None] = {}
    if inputs is not None:
        ready, odd = _look_at(ready, inputs, refusals)
    for message in odd:
        complain(f"notice: {message}")
    told: set[str] = set()
    for query in ready.queries.values():
        warnings, name = query.compiled.warnings, query.rule.name
        if warnings and name not in told:
            complain(render_diagnostics(warnings, query.compiled.text, file=name))
        told.add(name)
    counts: dict[str, int] = {}
    for query in ready.queries.values():
        counts[query.rule.name] = counts.get(query.rule.name, 0) + 1
    for name, count in counts.items():
        variants = f", {count:,} variants" if count > 1 else ""
        say(f"{name}: ok{variants}{', off' if name in ready.off else ''}")
    refusals.finish()


def _look_at(ready: Ready, inputs: str, refusals: Refusals) -> tuple[Ready, dict[str, None]]:
    """Plan rules for the columns of files, and tell what is odd about their events."""
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.run_command import look_at_files

    odd: dict[str, None] = {}
    for name in list(ready.queries):
        if name not in ready.queries:
            continue  # Another variant of the same rule was refused.
        try:
            _, notices = look_at_files(ready.queries[name].compiled, inputs)
        except CepheidError as error:
            error.file = ready.queries[name].rule.name
            refusals.add(error)
            ready = ready.without(name)
        else:
            odd |= dict.fromkeys(notices)
    return ready, odd


def backtest(
    rules: Annotated[
        str, Argument(help="Rules: a folder of .cq and YAML files, a YAML file, or a table.")
    ],
    store: Annotated[Path | None, Option(help="An event store that has the history.")] = None,
    inputs: Annotated[
        list[str] | None,
        Option(
            "--input",
            help="The history as files: 'log/*.parquet', or - for standard input. Those of several "
            "logs as sysmon=events/sysmon, once for each.",
        ),
    ] = None,
    since: Annotated[
        str | None, Option("--from", help="The time of the first event: '2026-01-31 13:30:00'.")
    ] = None,
    until: Annotated[str | None, Option("--to", help="The time at which events end.")] = None,
    values: Annotated[
        list[str] | None,
        Option("--set", help="Values of a parameter: limit=1,2,3 or limit=100..1000:100."),
    ] = None,
    measure: Annotated[
        bool, Option("--measure", help="Also run each rule alone, to tell its seconds.")
    ] = False,
    alerts: Annotated[
        Path | None,
        Option(help="Write all rows of all rules to this file: .csv, .json or .parquet."),
    ] = None,
    alert_format: Annotated[
        str | None,
        Option(help="With --alerts: alerts alone, as lines of JSON, ecs (Elastic) or ocsf."),
    ] = None,
    output: Annotated[Path | None, Option(help="Write the table of rules to this file.")] = None,
    format_: Annotated[str, Option("--format", help="table, csv, json (lines) or parquet.")] = "",
    sweep: Annotated[
        bool, Option("--sweep", help="The rule is one query with SWEEP: tell of every value.")
    ] = False,
    label: Annotated[
        str | None, Option(help="With --sweep: a column that is true for what alerts should find.")
    ] = None,
    labels: Annotated[
        Path | None,
        Option(help="With --sweep: a file with window_start and window_end of what to find."),
    ] = None,
    chart: Annotated[
        Path | None, Option(help="With --sweep: draw the curve, .png, .svg or .html.")
    ] = None,
    input_format: InputFormatOption = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Tell what rules would have reported of history, in one pass: how often, when, suppressed."""
    kind = result_kind(format_, output)
    if not sweep:
        refuse_options("it is for --sweep", label=label, labels=labels, chart=chart)
    listed = _listed(alerts, alert_format)
    places = inputs_of(inputs, []) if inputs else {}
    logs = Logs(places, apart=False) if {*places} - {UNNAMED} else None
    if (store is None) is (not inputs) or (len(inputs or ()) > 1 and logs is None):
        message = "name the history once: with --store, or with --input"
        raise WrongUseError(message)
    if store is not None:
        units = {"time-unit": time_unit != "us", "time-format": time_format}
        refuse_options("a store knows its times", time=time != "ts", **units)
        time = _open(store).time
    if sweep:
        others = {"from": since, "to": until, "set": values, "measure": measure, "alerts": alerts}
        others |= {"alert-format": alert_format, "input of a log": logs is not None}
        refuse_options("--sweep takes all events, and the values of the query", **others)
        columns = EventColumns(time, type_, time_unit, time_format)
        history = _open(store) if store is not None else (inputs or [""])[0]
        _sweep(Path(rules), columns, history, (label, labels), (kind, output, chart))
        return
    given = _read_values(values or [])
    columns = EventColumns(time, type_, time_unit, time_format)
    ready = ready_rules(find_rules(rules), columns, given, logs=logs)
    refusals = Refusals(ready)
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.alert_formats import write_alerts
    from cepheid.interfaces.backtest import NoRuleLeftError, Stretch
    from cepheid.interfaces.backtest import backtest as run_backtest
    from cepheid.interfaces.run_command import write_result

    with (
        standard_input(inputs or [], input_format, is_query=False) as files,
        warnings.catch_warnings(record=True) as notices,
        working("starting") as tell,
    ):
        warnings.simplefilter("always")
        events = _history(store, files, ready.workload.times)
        try:
            found = run_backtest(
                ready,
                Stretch(events, since, until),
                refusals,
                lambda count: tell(f"reading, {count:,} events"),
                measure=measure,
            )
        except NoRuleLeftError:
            refusals.finish()
            raise
    notify(notices)
    write_result(found.summary() if kind == "table" else found.table(), kind, output)
    if alerts is not None and alert_format is not None:
        write_alerts(found.shown_alerts(), alert_format, alerts)
    elif alerts is not None:
        write_result(found.alerts(), listed, alerts)
    count = len(found.reports)
    off = f", {len(ready.off)} rule{'' if len(ready.off) == 1 else 's'} off" if ready.off else ""
    queries = f"{count:,} quer{'y' if count == 1 else 'ies'}{off}"
    complain(f"{found.done.events:,} events read once in {found.done.seconds:.2f} s: {queries}")
    refusals.finish()


def _history(store: Path | None, files: list[str], times: TextTimes) -> EventSource:
    """Open a store or files; those of several logs are read as one stream."""
    from cepheid.interfaces.detect import read_together
    from cepheid.jobs.sources import source_of

    if store is not None:
        return source_of(_open(store), times)
    places = inputs_of(files, [])
    if {*places} == {UNNAMED}:
        return source_of(files[0], times)
    return source_of(read_together(places, times, named=True), times)


def _listed(alerts: Path | None, alert_format: str | None) -> str:
    """Check how rows are listed; return the kind of the file of a table."""
    if alert_format is None:
        return "" if alerts is None else result_kind("", alerts)
    if alert_format not in ("ecs", "ocsf"):
        message = f"--alert-format is ecs or ocsf, not {alert_format}"
        raise WrongUseError(message)
    if alerts is None:
        message = "--alert-format is for --alerts: name the file"
        raise WrongUseError(message)
    return ""


def _sweep(
    rule: Path,
    columns: EventColumns,
    events: EventStore | str,
    judged: tuple[str | None, Path | None],
    shown: tuple[str, Path | None, Path | None],
) -> None:
    """Tell of every value of a query with SWEEP; ``judged`` are a column and a file of labels."""
    kind, output, chart = shown
    label, windows = judged
    if label is not None and windows is not None:
        message = "name the labels once: with --label, or with --labels"
        raise WrongUseError(message)
    text, name = read_text(str(rule))
    query = compile_text(
        text, name, columns.time, columns.type, None, columns.time_unit, columns.time_format
    )
    # Arrow takes longer to load than checking a query takes.
    from pyarrow import concat_tables

    from cepheid.events.files import find_files, read_all
    from cepheid.interfaces.chart_file import check_chart, draw_spec
    from cepheid.interfaces.run_command import write_result
    from cepheid.pictures.sweeps import draw_curve
    from cepheid.runtimes.sweep_curve import sweep_curve

    check_chart(chart)
    with working("starting"):
        named = None
        if windows is not None:
            named = concat_tables(list(read_all(find_files(str(windows)), None, None)))
        table = sweep_curve(query, events, label=label, labels=named)
    write_result(table, kind, output)
    if chart is not None:
        draw_spec(draw_curve(table), chart)


def _open(store: Path) -> EventStore:
    from cepheid.store.event_store import EventStore

    return EventStore(store)


def _read_values(texts: list[str]) -> Parameters:
    """Read the values of parameters that a command line has."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        try:
            own = dict(read_parameters(text))
        except ValueError as error:
            message = f"--set {text} cannot be read: {error}"
            raise WrongUseError(message) from None
        for name in own.keys() & found.keys():
            message = f"--set has `{name}` twice: give all its values at once, {name}=1,2"
            raise WrongUseError(message)
        found |= own
    return tuple(found.items())
