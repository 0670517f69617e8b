"""Run SQL with MATCH_RECOGNIZE for ``cepheid run``, with inputs as tables by name."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.console import notify
from cepheid.jobs.why import WhyNot
from cepheid.kinds.row_pattern.select_tree import NotSimpleError
from cepheid.runtimes.sql import table_names, why_local_sql
from cepheid.statements import sql


def run_sql(text: str, inputs: list[str], engine: str, master: str | None) -> pa.Table:
    """Run SQL over files, in process or on Spark.

    Raises
    ------
    WrongUseError
        If an input has no name where it needs one, or only Spark runs the text.
    """
    try:
        names = table_names(text)
    except NotSimpleError:
        if engine != "spark":
            message = "this text is more than a SELECT over tables around its clauses: "
            raise WrongUseError(message + "add --engine spark") from None
        names = []
    tables = named_tables(inputs, names)
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        result = _on_spark(text, tables, master) if engine == "spark" else sql(text, tables=tables)
    notify(notices)
    table: pa.Table = result
    return table


def analyze_sql(text: str, inputs: list[str], spark: Any) -> str:
    """Run SQL over files, and describe what its clauses read and found.

    Raises
    ------
    WrongUseError
        If an input has no name where it needs one.
    """
    try:
        names = table_names(text)
    except NotSimpleError:
        names = []
    told: str = sql(spark, text, tables=named_tables(inputs, names), analyze=True)
    return told


def why_sql(text: str, inputs: list[str], engine: str) -> WhyNot:
    """Explain why SQL over files finds no or few matches, in process.

    Raises
    ------
    WrongUseError
        If an input has no name where it needs one, or only Spark runs the text.
    """
    if engine == "spark":
        message = "--engine has no effect here: row patterns are counted in this process"
        raise WrongUseError(message)
    try:
        return why_local_sql(text, named_tables(inputs, table_names(text)))
    except NotSimpleError:
        message = "this text is more than a SELECT over tables around its clauses: "
        raise WrongUseError(message + "ask about one clause, as SELECT * FROM it") from None


def _on_spark(text: str, tables: dict[str, str], master: str | None) -> pa.Table:
    from cepheid.runtimes.scan import find_paths
    from cepheid.spark import session as spark_session
    from cepheid.spark.failures import clear_failures

    for files in tables.values():
        find_paths(files)  # Starting Spark to find no file would take seconds.
    with spark_session.session(master) as spark, clear_failures():
        table: pa.Table = sql(spark, text, tables=tables).toArrow()
    return table


def named_tables(inputs: list[str], names: list[str]) -> dict[str, str]:
    """Assign input files to table names; an input for a single table needs no name.

    Examples
    --------
    >>> named_tables(["ticks.csv"], ["t"]), named_tables(["t=ticks.csv"], ["t"])
    ({'t': 'ticks.csv'}, {'t': 'ticks.csv'})
    """
    pairs = [text.partition("=") for text in inputs]
    if len(inputs) == 1 and len(names) == 1 and pairs[0][0].lower() != names[0].lower():
        return {names[0]: inputs[0]}
    named = {name: files for name, equal, files in pairs if equal}
    if len(named) < len(inputs):
        known = f"the text reads {', '.join(names)}" if names else "the text reads several tables"
        message = f"{known}: give each once, as --input {names[0] if names else 'name'}=files"
        raise WrongUseError(message)
    return named
