"""``cepheid serve``: open a workbench in the browser."""

from __future__ import annotations

import importlib.util
from typing import Annotated

from cepheid.api import query
from cepheid.errors import DataError, Diagnostic
from cepheid.interfaces.cli_input import WrongUseError, refuse_options
from cepheid.interfaces.cli_options import FormatOption, TimeOption, TypeOption, UnitOption
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.console import say
from cepheid.interfaces.stream_options import KAFKA


def serve(
    places: Annotated[
        list[str] | None,
        Argument(
            help="Files or folders of events, event stores, folders of rules, and topics: "
            "kafka://host:9092/topic."
        ),
    ] = None,
    port: Annotated[int, Option(help="The port; 0 is any that is free.", min=0)] = 8765,
    rows: Annotated[int, Option(help="Rows that a run keeps, at most.", min=1)] = 100_000,
    seconds: Annotated[int, Option(help="Seconds that a run may take.", min=1)] = 300,
    write: Annotated[
        bool, Option("--write", help="Allow to save queries in the folder of rules.")
    ] = False,
    columns: Annotated[
        str | None,
        Option(
            help="The fields of topics and their types, 'ts timestamp, type string, x double'; "
            "those of the first records without it."
        ),
    ] = None,
    kafka: Annotated[
        list[str] | None,
        Option(help="A setting of the client of Kafka, security.protocol=SSL; repeat it."),
    ] = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Open a workbench: write queries in the browser, run them, and see matches on a timeline."""
    if importlib.util.find_spec("starlette") is None or importlib.util.find_spec("uvicorn") is None:
        helps = ("install it: `pip install 'cepheid[web]'`",)
        message = "`cepheid serve` needs Starlette and uvicorn, which are not installed"
        raise DataError([Diagnostic("E585", message, helps=helps)])
    # Arrow takes longer to load than most commands run.
    from cepheid.interfaces.data_sets import Columns
    from cepheid.interfaces.topic_records import named_fields
    from cepheid.interfaces.web.server import serve as run_server
    from cepheid.interfaces.web.settings import Limits, TopicOptions, find_settings

    # Options that are wrong are told now, and not at the first query.
    query("PATTERN A", time=time, type=type_, time_unit=time_unit, time_format=time_format)
    if wrong := next((one for one in kafka or () if "=" not in one), None):
        message = f"--kafka is name=value, not {wrong}"
        raise WrongUseError(message)
    if not any(one.startswith(KAFKA) for one in places or ()):
        refuse_options("no place is a topic of Kafka", columns=columns, kafka=kafka)
    if columns:
        named_fields(columns, time)
    topics = TopicOptions(columns or "", dict(one.split("=", 1) for one in kafka or ()))
    settings = find_settings(
        places or [],
        Columns(time, type_, time_unit, time_format),
        Limits(rows, seconds=seconds),
        write=write,
        topics=topics,
    )

    def tell(address: str) -> None:
        say(f"The workbench is open: {address}\nCtrl+C ends it.")

    run_server(settings, port, tell)
