"""Tables of rules in databases: SQLite, PostgreSQL, whatever JDBC reaches, and Delta.

    sqlite:rules.db#rules                     a file of SQLite
    postgres://user@host/database/rules       PostgreSQL, in this process
    jdbc:mysql://host/database#rules          any database, read by Spark
    delta:rules/, or a folder with _delta_log a table of Delta

A table has few rows, so each look reads all of them, but for Delta, which numbers its versions.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Never
from urllib.parse import quote, urlsplit, urlunsplit

from cepheid.errors import DataError, Diagnostic

RULES_MAX = 100_000
"""Rules of a table."""

CONNECT_S = 10
JDBC_LOOK_S = 5.0
"""Seconds between looks by Spark, each of which is a job beside those of the stream."""

USER, PASSWORD = "CEPHEID_JDBC_USER", "CEPHEID_JDBC_PASSWORD"
"""The variables of the environment that log in to a database over JDBC."""

_POSTGRES = ("postgres://", "postgresql://")
_NAME = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")

Rows = tuple[Sequence[str], list[Sequence[Any]]]
"""The names of columns, and the values of every row."""


class RuleTable(NamedTuple):
    """A table of rules.

    Attributes
    ----------
    name
        The table for messages, without a password.
    read
        Reads all rows.
    stamp
        Computes what changes with the rows.
    look_s
        Seconds between two looks, at least.
    by_spark
        Whether Spark reads it.
    """

    name: str
    read: Callable[[], Rows]
    stamp: Callable[[], object]
    look_s: float = 0.0
    by_spark: bool = False

    def __str__(self) -> str:
        return self.name


@contextmanager
def opened(place: object, master: str | None, packages: str | None) -> Iterator[None]:
    """Keep a session of Spark open while rules are read by it: one that has their driver."""
    if not isinstance(place, RuleTable) or not place.by_spark:
        yield
        return
    # Spark takes a second to load.
    from cepheid.spark.session import session

    with session(master, packages=packages):
        yield


def rule_table(place: str) -> RuleTable | None:
    """Find the table that a text names; None if it is a path of files.

    Raises
    ------
    DataError
        E537 if the text names no table of its database.
    """
    scheme, _, rest = place.partition(":")
    if place.startswith(_POSTGRES):
        return _in_postgres(place)
    if scheme in ("sqlite", "jdbc"):
        address, _, table = rest.rpartition("#")
        if not address or not _NAME.fullmatch(table):
            _fail(f"`{scheme}:...` names no table", f"write `{scheme}:ADDRESS#rules`")
        return _in_sqlite(address, table) if scheme == "sqlite" else _by_jdbc(address, table)
    if scheme == "delta" and rest:
        return _in_delta(rest)
    if (Path(place) / "_delta_log").is_dir():
        return _in_delta(place)
    return None


def _fail(message: str, *helps: str) -> Never:
    raise DataError([Diagnostic("E537", message, helps=helps)])


@contextmanager
def _clear(name: str, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
    """Convert the exceptions of a library to one diagnostic."""
    try:
        yield
    except kinds as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        _fail(f"could not read the rules of {name}: {lines[0]}")


def _library(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"the package `{module}` is not installed"
        helps = (f"`pip install 'cepheid[{extra}]'`",)
        raise DataError([Diagnostic("E560", message, helps=helps)]) from error


def _table(name: str, read: Callable[[], Rows]) -> RuleTable:
    """Build a table whose rows are its stamp."""

    def limited() -> Rows:
        names, rows = read()
        if len(rows) > RULES_MAX:
            _fail(f"{name} has more than {RULES_MAX:,} rows", "make a view with fewer rules")
        # Databases differ in whether they keep the case of a name.
        return [column.lower() for column in names], rows

    return RuleTable(name, limited, lambda: repr(limited()))


def _quoted(table: str) -> str:
    """Quote a name, which ``_NAME`` has checked, so that no word of SQL is taken for one."""
    return ".".join(f'"{part}"' for part in table.split("."))


def _in_sqlite(path: str, table: str) -> RuleTable:
    import sqlite3  # Few users need it.

    name = f"the table `{table}` in `{path}`"
    address = f"file:{quote(path)}?mode=ro"

    def read() -> Rows:
        with (
            _clear(name, (sqlite3.Error,)),
            closing(sqlite3.connect(address, timeout=CONNECT_S, uri=True)) as connection,
        ):
            found = connection.execute(f"SELECT * FROM {_quoted(table)}")
            return [column[0] for column in found.description], found.fetchmany(RULES_MAX + 1)

    return _table(name, read)


def _in_postgres(place: str) -> RuleTable:
    parts = urlsplit(place)
    path, _, table = parts.path.rpartition("/")
    if not path.strip("/") or not _NAME.fullmatch(table):
        _fail("PostgreSQL has no such table", "write `postgres://user@host/database/rules`")
    address = urlunsplit(parts._replace(path=path))
    name = f"the table `{table}` of PostgreSQL at `{parts.hostname or 'this machine'}`"

    def read() -> Rows:
        library = _library("psycopg", "postgres")
        with (
            _clear(name, (library.Error,)),
            library.connect(address, connect_timeout=CONNECT_S) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"SELECT * FROM {_quoted(table)}")
            return [column.name for column in cursor.description], cursor.fetchmany(RULES_MAX + 1)

    return _table(name, read)


def _by_jdbc(address: str, table: str) -> RuleTable:
    name = f"the table `{table}` over JDBC ({address.partition(':')[0]})"

    def read() -> Rows:
        # Spark takes a second to load.
        from pyspark.sql import SparkSession

        from cepheid.spark.failures import FAILURES, clear_error
        from cepheid.spark.session import session

        def rows_in(spark: SparkSession) -> Rows:
            asked = {"user": os.environ.get(USER), "password": os.environ.get(PASSWORD)}
            given = {key: value for key, value in asked.items() if value is not None}
            try:
                frame = spark.read.jdbc(f"jdbc:{address}", table, properties=given)
                rows = frame.limit(RULES_MAX + 1).collect()
            except FAILURES as error:
                reason = clear_error(error).diagnostics[0].message
                driver = "name the driver with `--packages`, as Maven does"
                _fail(f"could not read the rules of {name}: {reason}", driver)
            return frame.columns, [tuple(row) for row in rows]

        active = SparkSession.getActiveSession()
        if active is not None:
            return rows_in(active)
        with session() as spark:
            return rows_in(spark)

    return _table(name, read)._replace(look_s=JDBC_LOOK_S, by_spark=True)


def _in_delta(path: str) -> RuleTable:
    name = f"the Delta table `{path}`"

    def opened() -> Any:
        library = _library("deltalake", "delta")
        with _clear(name, (library.exceptions.DeltaError, OSError)):
            return library.DeltaTable(path)

    def read() -> Rows:
        found = opened()
        with _clear(name, (OSError, ValueError, importlib.import_module("pyarrow").ArrowException)):
            rows = found.to_pyarrow_dataset().head(RULES_MAX + 1)
        if len(rows) > RULES_MAX:
            _fail(f"{name} has more than {RULES_MAX:,} rows", "keep rules in a table of their own")
        return rows.column_names, list(zip(*(c.to_pylist() for c in rows.columns), strict=True))

    return RuleTable(name, read, lambda: opened().version())
