"""``cepheid mcp``: answer an assistant over standard input and output."""

from __future__ import annotations

from typing import Annotated

from cepheid.api import query
from cepheid.interfaces.cli_options import FormatOption, TimeOption, TypeOption, UnitOption
from cepheid.interfaces.commands import Argument, Option
from cepheid.interfaces.extras import need_library


def mcp(
    places: Annotated[
        list[str],
        Argument(help="Files or folders of events, or event stores; nothing else is read."),
    ],
    rows: Annotated[int, Option(help="Rows of an answer, at most.", min=1)] = 200,
    bytes_: Annotated[
        int, Option("--bytes", help="Bytes of the rows of an answer, at most.", min=1)
    ] = 1 << 18,
    seconds: Annotated[int, Option(help="Seconds that a tool may take.", min=1)] = 60,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Let an assistant check, explain and run queries, by the Model Context Protocol; read-only."""
    need_library("mcp", "mcp", "mcp")
    # The library of an extra.
    from cepheid.interfaces.assistant.named_sets import NamedSets
    from cepheid.interfaces.assistant.server import make_server
    from cepheid.interfaces.assistant.tasks import Limits
    from cepheid.interfaces.data_sets import Columns

    # Options that are wrong are told now, and not at the first question.
    query("PATTERN A", time=time, type=type_, time_unit=time_unit, time_format=time_format)
    columns = Columns(time, type_, time_unit, time_format)
    make_server(NamedSets(places), columns, Limits(rows, bytes_, seconds)).run("stdio")
