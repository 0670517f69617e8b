"""``cepheid why``: say why a query finds no or few rows in files."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, NamedTuple

import msgspec

from cepheid.errors import CepheidError
from cepheid.interfaces.cli_input import (
    WrongUseError,
    check_engine,
    compile_text,
    given_text,
    is_sql,
)
from cepheid.interfaces.cli_options import (
    FormatOption,
    InputFormatOption,
    InputsOption,
    MasterOption,
    QueryArgument,
    TextOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.commands import Option
from cepheid.interfaces.console import notify, say, show
from cepheid.interfaces.standard_input import standard_input

FORMATS = ("text", "json")


class Columns(NamedTuple):
    """The columns of time and type, and how times are written."""

    time: str
    type_: str
    time_unit: str
    time_format: str | None


def why(
    inputs: InputsOption,
    file: QueryArgument = None,
    text: TextOption = None,
    input_format: InputFormatOption = None,
    format_: Annotated[
        str, Option("--format", help="text (sentences) or json (all numbers).")
    ] = "text",
    engine: Annotated[str, Option(help="What counts: local or spark.")] = "local",
    master: MasterOption = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Say why a query finds no or few rows: how far partial matches came, and what stopped them.

    Takes the inputs and options of `cepheid run`.
    """
    check_engine(engine)
    if master is not None and engine != "spark":
        message = "--master names a Spark cluster: add --engine spark"
        raise WrongUseError(message)
    if format_ not in FORMATS:
        message = f"--format is text or json, not {format_}"
        raise WrongUseError(message)
    query_text, name = given_text(file, text)
    with standard_input(inputs, input_format, is_query=file == "-") as given:
        try:
            columns = Columns(time, type_, time_unit, time_format)
            answer = _asked(query_text, name, given, columns, engine, master)
        except CepheidError as error:
            error.file = name
            raise
    if format_ == "json":
        say(msgspec.json.encode(answer.to_dict(), enc_hook=str).decode())
    else:
        show(str(answer))


def _asked(
    text: str,
    name: str,
    inputs: list[str],
    columns: Columns,
    engine: str,
    master: str | None,
) -> Any:
    # Arrow takes longer to load than checking a query takes.
    from cepheid.interfaces.run_command import named_inputs

    if is_sql(text):
        from cepheid.interfaces.sql_command import why_sql

        return why_sql(text, inputs, engine)
    time, type_, unit, form = columns
    compiled = compile_text(text, name, time, type_, None, unit, form)
    streams = named_inputs(compiled, inputs)
    if isinstance(streams, str) and len(inputs) > 1:
        message = "--input may be given only once, except for a JOIN of two streams and SQL tables"
        raise WrongUseError(message)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        if engine == "spark":
            from cepheid.spark import session as spark_session
            from cepheid.spark.failures import clear_failures

            with spark_session.session(master) as spark, clear_failures():
                answer = compiled.why_not(streams, spark=spark)
        else:
            answer = compiled.why_not(streams)
    notify(notices)
    return answer
