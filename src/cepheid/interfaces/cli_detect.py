"""``cepheid detect``: run rules over files or a live stream, and write alerts as JSON."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

from cepheid.interfaces.cli_input import WrongUseError, find_rules, refuse_options
from cepheid.interfaces.cli_options import FormatOption, TimeOption, TypeOption, UnitOption
from cepheid.interfaces.cli_stream import stream
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import complain, notify, say_data, working
from cepheid.interfaces.logs import UNNAMED, Inputs, Logs, inputs_of
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules

FORMATS = ("ecs", "ocsf")
WATERMARK = "10 seconds"
ABSENT_SHOWN = 20
"""Fields of rules that no event has: a thousand rules name hundreds."""
ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The formats of files of a live stream, by their ends; others are Parquet."""


def detect(
    rules: Annotated[
        str, Argument(help="Rules: a folder of .cq and YAML files, a YAML file, or a table.")
    ],
    inputs: Annotated[
        list[str] | None,
        Option(
            "--input",
            help="The events: a file, a folder or 'log/*.jsonl', once for each; with --stream a "
            "folder or kafka://host:9092/topic. Those of one log as sysmon=events/sysmon.",
        ),
    ] = None,
    folders: Annotated[
        list[str] | None,
        Option(
            "--logs",
            help="Logs by their names: a folder with a file or folder of each, or "
            "kafka://host:9092/sysmon,proxy.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        Option(
            "--output",
            "-o",
            help="Write alerts to this file, not here; with --stream to a folder or "
            "kafka://host:9092/topic.",
        ),
    ] = None,
    format_: Annotated[
        str, Option("--format", help="The schema of alerts: ecs (Elastic) or ocsf.")
    ] = "ecs",
    live: Annotated[
        bool, Option("--stream", help="Go on with events that come, on Spark.")
    ] = False,
    checkpoint: Annotated[
        Path | None, Option(help="With --stream: the folder from which it goes on.")
    ] = None,
    watermark: Annotated[
        str | None,
        Option(help="With --stream: how far behind the latest event others may come."),
    ] = None,
    columns: Annotated[
        str | None, Option(help="With --stream: the columns of events, 'ts timestamp, ...'.")
    ] = None,
    once: Annotated[
        bool, Option("--once", help="With --stream: stop when there are no more events.")
    ] = False,
    kafka: Annotated[
        list[str] | None,
        Option(help="With --stream: a setting of the client of Kafka; repeatable."),
    ] = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Run rules over events, and write an alert of each row as a line of JSON, ECS or OCSF."""
    if format_ not in FORMATS:
        message = f"--format is one of {', '.join(FORMATS)}, not {format_}"
        raise WrongUseError(message)
    places = inputs_of(inputs or [], folders or [])
    if live:
        several = any(len(one) > 1 for one in places.values())
        if checkpoint is None or several:
            message = "--stream takes a --checkpoint, the folder for its state, and one --input "
            message += "of each log"
            raise WrongUseError(message)
        stream(
            [f"{log}={place}" if log else place for log, (place,) in places.items()],
            output or "-", checkpoint, rules=rules, watermark=watermark or WATERMARK,
            columns=columns, once=once, kafka=kafka, format_=_content(places), alerts=format_,
            time=time, type_=type_, time_unit=time_unit, time_format=time_format,
        )  # fmt: skip
        return
    refuse_options(
        "it is for --stream",
        checkpoint=checkpoint,
        columns=columns,
        once=once,
        watermark=watermark,
        kafka=kafka,
    )
    place = find_rules(rules)
    logs = None if set(places) == {UNNAMED} else Logs(places, apart=True)
    ready = ready_rules(place, EventColumns(time, type_, time_unit, time_format), logs=logs)
    refusals = Refusals(ready)
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.alert_formats import alert_lines, write_alerts
    from cepheid.interfaces.detect import detect as run

    with warnings.catch_warnings(record=True) as notices, working("reading"):
        warnings.simplefilter("always")
        found = run(ready, places, refusals)
    notify(notices)
    for notice in found.notices:
        complain(f"notice: {notice}")
    for names, absent in found.absent.items():
        of = "" if logs is None else f" of {' and '.join(name or 'no log' for name in names)}"
        told = ", ".join(absent[:ABSENT_SHOWN])
        if len(absent) > ABSENT_SHOWN:
            told += f" and {len(absent) - ABSENT_SHOWN:,} others"
        complain(f"notice: no event{of} has these fields, which are NULL: {told}")
    if output is None:
        for line in alert_lines(found.alerts, format_):
            say_data(line)
    else:
        write_alerts(found.alerts, format_, Path(output))
    count = len(found.alerts)
    alerts = f"{count:,} alert{'' if count == 1 else 's'}"
    complain(f"{found.events:,} events read in {found.seconds:.2f} s: {alerts}")
    refusals.finish()


def _content(places: Inputs) -> str | None:
    """Find the format of the files of folders by the ends of their names; None for Parquet."""
    folders = [Path(place) for one in places.values() for place in one]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    return next((ENDINGS[one.suffix] for one in files if one.suffix in ENDINGS), None)
