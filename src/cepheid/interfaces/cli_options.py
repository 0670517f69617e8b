"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cepheid.interfaces.commands import Argument, Option

FileArgument = Annotated[str, Argument(help="A query file, or - for standard input.")]
TimeOption = Annotated[str, Option(help="The column that holds an event's time.")]
UnitOption = Annotated[
    str, Option(help="The unit of times that are whole numbers: ns, us, ms or s.")
]
FormatOption = Annotated[
    str | None,
    Option(help="The format of times that are text: '%d/%m/%Y %H:%M:%S'; else ISO 8601."),
]
TypeOption = Annotated[str, Option("--type", help="The column that holds an event's type.")]
SchemaOption = Annotated[
    Path | None,
    Option(
        help="A Parquet, Arrow, CSV or JSON lines file, or a folder of Parquet files, that has the "
        "events' columns."
    ),
]

TextOption = Annotated[
    str | None, Option("--query", "-q", help="The query itself, in place of a file.")
]
EngineOption = Annotated[str, Option(help="What runs the query: local or spark.")]
RulesOption = Annotated[
    str | None,
    Option(
        help="Rules: a folder of query files (.cq) and YAML, a YAML file, or a table with the "
        "columns name and query: a file, sqlite:FILE#TABLE, postgres://HOST/DB/TABLE, "
        "jdbc:ADDRESS#TABLE or delta:FOLDER."
    ),
]

InputsOption = Annotated[
    list[str],
    Option(
        "--input",
        help="The events: a file, a folder, a pattern ('log/*.parquet'), or - for standard "
        "input; for a JOIN of two streams, or tables of SQL, once for each as name=files.",
    ),
]
InputFormatOption = Annotated[
    str | None,
    Option(
        help="What comes from standard input: csv, tsv, json (lines), parquet or arrow; its "
        "first bytes tell without it."
    ),
]
ChangesOption = Annotated[
    str | None,
    Option(help="The events are a changelog: the column of the operation (insert, update, …)."),
]
IdOption = Annotated[
    list[str] | None,
    Option("--id", help="With --changes: a column that tells events apart; may be repeated."),
]
QueryArgument = Annotated[str | None, Argument(help="A query file, or - for standard input.")]
MasterOption = Annotated[
    str | None, Option(help="The Spark cluster, for --engine spark: local[*], spark://…")
]
