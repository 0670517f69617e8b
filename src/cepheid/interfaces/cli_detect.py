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
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules

FORMATS = ("ecs", "ocsf")
WATERMARK = "10 seconds"
ENDINGS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
"""The formats of files of a live stream, by their ends; others are Parquet."""


def detect(
    rules: Annotated[
        str, Argument(help="Rules: a folder of .cq and YAML files, a YAML file, or a table.")
    ],
    inputs: Annotated[
        list[str],
        Option(
            "--input",
            help="The events: a file, a folder or 'log/*.jsonl', once for each; with --stream a "
            "folder or kafka://host:9092/topic.",
        ),
    ],
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
    if live:
        if checkpoint is None or len(inputs) != 1:
            message = "--stream takes one --input and a --checkpoint, the folder for its state"
            raise WrongUseError(message)
        stream(
            inputs, output or "-", checkpoint, rules=rules, watermark=watermark or WATERMARK,
            columns=columns, once=once, kafka=kafka, format_=_content(inputs[0]), alerts=format_,
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
    ready = ready_rules(place, EventColumns(time, type_, time_unit, time_format))
    refusals = Refusals(ready)
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.alert_formats import alert_lines
    from cepheid.interfaces.detect import detect as run

    with warnings.catch_warnings(record=True) as notices, working("reading"):
        warnings.simplefilter("always")
        found = run(ready, inputs, refusals)
    notify(notices)
    if found.absent:
        complain(f"notice: no event has these fields, which are NULL: {', '.join(found.absent)}")
    lines = alert_lines(found.alerts, format_)
    if output is None:
        for line in lines:
            say_data(line)
    else:
        try:
            Path(output).write_bytes(b"".join(lines))
        except OSError as error:
            message = f"could not write {output}: {error.strerror or error}"
            raise WrongUseError(message) from None
    count = len(found.alerts)
    alerts = f"{count:,} alert{'' if count == 1 else 's'}"
    complain(f"{found.events:,} events read in {found.seconds:.2f} s: {alerts}")
    refusals.finish()


def _content(place: str) -> str | None:
    """Find the format of the files of a folder by the ends of their names; None for Parquet."""
    folder = Path(place)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return next((ENDINGS[one.suffix] for one in files if one.suffix in ENDINGS), None)
