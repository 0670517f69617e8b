"""``cepheid detect``: run rules over files of events, and write alerts as JSON."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

from cepheid.interfaces.cli_input import WrongUseError, find_rules
from cepheid.interfaces.cli_options import FormatOption, TimeOption, TypeOption, UnitOption
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import complain, notify, say_data, working
from cepheid.interfaces.rule_queries import EventColumns, Refusals, ready_rules

FORMATS = ("ecs", "ocsf")


def detect(
    rules: Annotated[
        str, Argument(help="Rules: a folder of .cq and YAML files, a YAML file, or a table.")
    ],
    inputs: Annotated[
        list[str],
        Option("--input", help="The events: a file, a folder or 'log/*.jsonl'; once for each."),
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write alerts to this file, not here.")
    ] = None,
    format_: Annotated[
        str, Option("--format", help="The schema of alerts: ecs (Elastic) or ocsf.")
    ] = "ecs",
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Run rules over events, and write an alert of each row as a line of JSON, ECS or OCSF."""
    if format_ not in FORMATS:
        message = f"--format is one of {', '.join(FORMATS)}, not {format_}"
        raise WrongUseError(message)
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
            output.write_bytes(b"".join(lines))
        except OSError as error:
            message = f"could not write {output}: {error.strerror or error}"
            raise WrongUseError(message) from None
    count = len(found.alerts)
    alerts = f"{count:,} alert{'' if count == 1 else 's'}"
    complain(f"{found.events:,} events read in {found.seconds:.2f} s: {alerts}")
    refusals.finish()
