"""Rows to a table of PostgreSQL, each once: one transaction for each micro-batch.

The transaction also writes the number of the micro-batch to a table of its own. If the number is
there already, the rows are there too, and nothing is written. Two drivers of one query wait for
each other at that line of the table, and the later one finds the number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Never
from urllib.parse import urlsplit, urlunsplit

from pyspark.sql import functions as sf
from pyspark.sql import types as t

from cepheid.options import refuse
from cepheid.runtimes.kafka.clients import extra, fail
from cepheid.runtimes.spark.sinks.calls import Write, query_of, sink
from cepheid.runtimes.spark.sinks.retries import pauses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EPOCHS = "cepheid_epochs"
CONNECT_S = 10

_TYPES: dict[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    t.ByteType: "smallint",
    t.ShortType: "smallint",
    t.IntegerType: "integer",
    t.LongType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.BinaryType: "bytea",
    t.DateType: "date",
    t.TimestampType: "timestamptz",
    t.TimestampNTZType: "timestamp",
}


def postgres_place(url: str) -> tuple[str, str]:
    """Split ``postgres://user@host/database/table`` into an address and a table.

    Examples
    --------
    >>> postgres_place("postgres://me@host:5432/db/alerts?sslmode=require")
    ('postgres://me@host:5432/db?sslmode=require', 'alerts')
    """
    parts = urlsplit(url)
    path, _, table = parts.path.rpartition("/")
    return urlunsplit(parts._replace(path=path)), table


def postgres_sink(url: str) -> Write:
    """Build the function for foreachBatch that writes rows to a table, each once.

    Parameters
    ----------
    url
        ``postgres://user@host:5432/database/table`` or ``.../schema.table``. The table is created
        if it is missing. A password belongs in PGPASSWORD or a password file.
    """
    library = extra("psycopg", "psycopg", "postgres")
    address, table = postgres_place(url)
    if not table or not urlsplit(address).path.strip("/"):
        refuse("E590", "a sink of PostgreSQL is postgres://user@host/database/table")
    ready: list[bool] = []

    @sink
    def write(batch: DataFrame, number: int) -> None:
        for pause in (*pauses(), None):
            try:
                with library.connect(address, connect_timeout=CONNECT_S) as connection:
                    if not ready:
                        _create(connection, table, batch.schema)
                        ready.append(True)
                    _write(connection, table, batch, number)
            except library.OperationalError as error:
                # The number makes it safe to try again, also if the commit went through.
                if pause is None:
                    _unwritten(table, error)
                time.sleep(pause)
            except library.Error as error:
                _unwritten(table, error)
            else:
                return

    return write


def _unwritten(table: str, error: Exception) -> Never:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    fail("E564", f"could not write to table `{table}`: {reason}")


def _name(table: str) -> Any:
    return extra("psycopg.sql", "psycopg", "postgres").Identifier(*table.split("."))


def _create(connection: Any, table: str, schema: t.StructType) -> None:
    """Create the tables; drivers that start at once take turns."""
    sql = extra("psycopg.sql", "psycopg", "postgres")
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_type(field.dataType)))
        for field in schema.fields
    )
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (EPOCHS,))
        cursor.execute(sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(_name(table), columns))
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {EPOCHS} (query text, target text, epoch bigint NOT NULL, "
            "PRIMARY KEY (query, target))"
        )


def _type(kind: t.DataType) -> str:
    if isinstance(kind, t.DecimalType):
        return f"numeric({kind.precision}, {kind.scale})"
    if isinstance(kind, (t.StructType, t.ArrayType, t.MapType)):
        return "jsonb"
    return _TYPES.get(type(kind), "text")


def _write(connection: Any, table: str, batch: DataFrame, number: int) -> None:
    sql = extra("psycopg.sql", "psycopg", "postgres")
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {EPOCHS} AS e VALUES (%s, %s, %s) ON CONFLICT (query, target) "
            "DO UPDATE SET epoch = excluded.epoch WHERE e.epoch < excluded.epoch",
            (query_of(batch), table, number),
        )
        if cursor.rowcount == 0:
            return
        names = sql.SQL(", ").join(map(sql.Identifier, batch.columns))
        command = sql.SQL("COPY {} ({}) FROM STDIN").format(_name(table), names)
        with cursor.copy(command) as copy:
            for row in _rows(batch):
                copy.write_row(row)


def _rows(batch: DataFrame) -> Iterator[Any]:
    columns = []
    for field in batch.schema.fields:
        column, kind = sf.col(f"`{field.name.replace('`', '``')}`"), _type(field.dataType)
        if kind == "jsonb":
            column = sf.to_json(column)
        elif kind == "text":
            column = column.cast("string")
        columns.append(column.alias(field.name))
    yield from batch.select(*columns).toLocalIterator(prefetchPartitions=True)
