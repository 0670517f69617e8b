"""The ways to run a query on Spark: DataFrames, files and live streams."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from tests.agreement.representations import TICK_NS, plain_rows, value_type
from tests.agreement.values import Trial
from tests.agreement.ways import (
    PATTERNS,
    SELECTS,
    STEPPED,
    SWEEPS,
    Way,
    can_be_live,
    compiled,
    has_events_window,
    is_near,
    parquet_holds,
    pieces,
    run_over,
    stored,
)
from tests.store.small_store import small_parts

import cepheid
from cepheid.errors import CepheidError
from cepheid.spark.failures import clear_error
from cepheid.spark.file_records import infer_columns, read_folder
from cepheid.spark.schema import plain_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

compute: Any = pc
STEPS = 1000
"""So many units of the query after all others comes the event that closes the last windows."""


def spark_ways(spark: SparkSession) -> list[Way]:
    """Return the ways to run on a session."""
    both = (*PATTERNS, *SELECTS, *STEPPED, *SWEEPS)
    return [
        Way("Spark DataFrame", (*both, "row pattern"), _on(spark, run_frame), _frame_holds),
        Way("Spark files", both, _on(spark, run_spark_files), _file_holds),
        Way("Spark store", both, _on(spark, run_spark_store), _file_holds),
        Way("Spark workload", (*PATTERNS, "funnel"), _on(spark, run_spark_workload), _frame_holds),
    ]


def spark_streams(spark: SparkSession) -> list[Way]:
    """Return the ways to run live, each of which takes seconds."""
    kinds = (*PATTERNS, *STEPPED)
    folders = (*kinds, "filter", "aggregation")
    return [
        Way("Spark stream", kinds, _on(spark, run_stream), _stream_holds),
        Way("Spark folder", folders, _on(spark, run_folder), _folder_holds),
    ]


def _on(spark: SparkSession, run: Callable[[SparkSession, Trial], Any]) -> Callable[[Trial], Any]:
    return partial(_run_clearly, spark, run)


def _run_clearly(
    spark: SparkSession, run: Callable[[SparkSession, Trial], Any], trial: Trial
) -> Any:
    """Run in the trial's zone; what a task says is the refusal of the query."""
    spark.conf.set("spark.sql.session.timeZone", trial.zone)
    try:
        return run(spark, trial)
    except CepheidError:
        raise
    except Exception as error:
        clear = clear_error(error)
        if clear.diagnostics[0].code == "E523":
            raise
        raise clear from error
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# ---------------------------------------------------------------------------------------
# What Spark holds


def _types(trial: Trial) -> list[Any]:
    return [value_type(field.type) for table in trial.tables.values() for field in table.schema]


def _frame_holds(trial: Trial) -> bool:
    """Return whether Spark has types for all columns: neither nanoseconds nor 64 bits unsigned."""
    return not any(
        kind == pa.uint64() or getattr(kind, "unit", "") == "ns" for kind in _types(trial)
    )


def _file_holds(trial: Trial) -> bool:
    return _frame_holds(trial) and parquet_holds(trial) and pa.float16() not in _types(trial)


def for_spark(table: pa.Table) -> pa.Table:
    """Return a table in types that Spark takes; times without a zone are those of UTC."""
    columns = {}
    for name in table.column_names:
        column: Any = table.column(name)
        if isinstance(column.type, pa.RunEndEncodedType):
            column = compute.run_end_decode(column.combine_chunks())
        kind: Any = plain_type(column.type)
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", "UTC")
        columns[name] = column.cast(kind)
    return pa.table(columns)


def collected(frame: Any) -> pa.Table:
    """Return the rows of a DataFrame."""
    found: pa.Table = frame.toArrow()
    return found


# ---------------------------------------------------------------------------------------
# Batches


def run_frame(spark: SparkSession, trial: Trial) -> Any:
    """Run over DataFrames."""
    frames = {n: spark.createDataFrame(for_spark(t)) for n, t in trial.tables.items()}
    if trial.kind == "row pattern":
        return collected(cepheid.sql(spark, trial.text, tables=frames))
    return collected(run_over(trial, frames))


def run_spark_files(spark: SparkSession, trial: Trial) -> Any:
    """Run over Parquet files that Spark reads."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: write_files(trial, name, Path(folder)) for name in trial.tables}
        return collected(run_over(trial, paths, spark=spark))


def run_spark_store(spark: SparkSession, trial: Trial) -> Any:
    """Run over event stores."""
    with tempfile.TemporaryDirectory() as folder, small_parts():
        stores = {name: stored(trial, name, folder) for name in trial.tables}
        return collected(run_over(trial, stores, spark=spark))


def run_spark_workload(spark: SparkSession, trial: Trial) -> Any:
    """Run beside another query."""
    queries = {"one": trial.text, "other": "RETURN COUNT(*) PATTERN SEQ(A+, B)"}
    work = cepheid.workload(queries, **trial.options)
    frame = spark.createDataFrame(for_spark(trial.table))
    return collected(work.run(frame, separate=True)["one"])


def write_files(trial: Trial, name: str, folder: Path, last: pa.Table | None = None) -> str:
    """Write the pieces of a stream as files whose times are in their order."""
    place = folder / name
    place.mkdir()
    table = trial.tables[name]
    # Spark reads files in an order of its own, which is that of arrival (§10.7).
    whole = trial.kind in SELECTS and has_events_window(trial)
    # The choice of matches asks for it too, whatever TIES says (§14.2).
    whole = whole or "AFTER MATCH SKIP" in trial.text
    # So does the order of the matches of a set, if they end at one time (§2.10).
    whole = whole or (trial.kind == "matches" and " AND " in pattern_of(trial))
    parts = [table] if whole else [*pieces(trial, table)] or [table]
    for number, piece in enumerate([*parts, *([] if last is None else [last])]):
        path = place / f"{number:03}.parquet"
        parquet.write_table(piece, path, row_group_size=2)
        os.utime(path, (1000 + number, 1000 + number))
    return str(place)


def pattern_of(trial: Trial) -> str:
    """Return the line of a query with its pattern."""
    return next((line for line in trial.text.splitlines() if line.startswith("PATTERN")), "")


# ---------------------------------------------------------------------------------------
# Streams


def _stream_holds(trial: Trial) -> bool:
    """Return whether one more event can end the stream without a part in any match."""
    if not _file_holds(trial) or not can_be_live(trial) or "date" in trial.forms["ts"]:
        return False
    if trial.kind == "situations":
        return "PARTITION BY k" in trial.text and trial.forms["k"] == "string"
    return trial.forms.get(trial.type) == "string" or trial.forms.get("type") == "string"


def _folder_holds(trial: Trial) -> bool:
    """Return whether the same is so of a folder, whose SELECTs are live, too."""
    if trial.kind not in SELECTS:
        return _stream_holds(trial)
    if not _file_holds(trial) or not is_near(trial) or "date" in trial.forms["ts"]:
        return False
    if any(word in trial.text for word in ("LIMIT", "ORDER BY")) or has_events_window(trial):
        return False
    return trial.kind == "filter" or (trial.kind == "aggregation" and "WINDOW" in trial.text)


def last_event(trial: Trial) -> pa.Table:
    """Return an event of another type or partition, after all windows of the others."""
    ticks: list[Any] = trial.table.column(trial.time).cast(pa.int64()).to_pylist()
    columns = {}
    for field in trial.table.schema:
        values: list[Any] = [None]
        if field.name == trial.time:
            unit = getattr(field.type, "unit", trial.time_unit)
            delay = 2 * 10**9 // TICK_NS[unit]  # Longer than that of the watermark.
            values = [max(ticks, default=0) + STEPS * trial.step + delay]
        elif field.name in (trial.type, "k"):
            values = ["Last"]
        elif "ANY " in trial.text and len(trial.table):
            # It fits ANY, and without a key it would be a bad record, which tells no time.
            values = [v for v in trial.table.column(field.name).to_pylist() if v is not None][:1]
            values = values or [None]
        kind: Any = pa.int64() if field.name == trial.time else field.type
        columns[field.name] = _encoded(values, kind).cast(field.type)
    return pa.table(columns)


def _encoded(values: list[Any], kind: Any) -> Any:
    """Return an array; Arrow makes not every one of dictionaries from values."""
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    coded: Any = pa.array(values, kind.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.cast(kind.index_type), coded.dictionary)


def run_stream(spark: SparkSession, trial: Trial) -> Any:
    """Run over files, one a micro-batch, and an event after all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = write_files(trial, "s", folder, last_event(trial))
        schema = spark.read.parquet(place).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        # The event after all may lie years ahead of the clock, and so may the others.
        frame, far = reader.parquet(place), "3650000 days"
        result = compiled(trial).stream(frame, watermark="1 second", max_ahead=far)
        writer = result.writeStream.format("parquet").option("path", str(folder / "rows"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        live = writer.trigger(availableNow=True).start()
        live.awaitTermination()
        return plain_rows(spark.read.schema(result.schema).parquet(str(folder / "rows")).toArrow())


def run_folder(spark: SparkSession, trial: Trial) -> Any:
    """Run over files that tasks read, in another order of times, and start again in between."""
    arrived, delay = _out_of_order(trial)
    last = [] if trial.kind == "filter" else [_later(trial, last_event(trial), delay)]
    parts = [*pieces(trial, arrived), *last] or [arrived]
    begun = len(trial.text) % len(parts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parquet.write_table(trial.table, folder / "known.parquet")
        place = folder / "events"
        place.mkdir()
        for number, piece in enumerate(parts):
            path = place / f"{number:03}.parquet"
            parquet.write_table(piece, path, row_group_size=2)
            os.utime(path, (1000 + number, 1000 + number))
            if number == begun:
                _follow(spark, trial, folder, delay)
        schema = _follow(spark, trial, folder, delay)
        return plain_rows(spark.read.schema(schema).parquet(str(folder / "rows")).toArrow())


def _follow(spark: SparkSession, trial: Trial, folder: Path, delay: int) -> Any:
    """Read the files that are new, two a micro-batch, and return the schema of the rows."""
    columns = infer_columns(spark, str(folder / "known.parquet"), "parquet")
    frame = read_folder(spark, str(folder / "events"), "parquet", columns, 2)
    length = f"{delay // 1000} microseconds"
    result = compiled(trial).stream(frame, watermark=length, max_ahead="3650000 days")
    writer = result.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return result.schema


def _out_of_order(trial: Trial) -> tuple[pa.Table, int]:
    """Return events in an order of arrival, and the nanoseconds that the latest of them waits.

    Events of one time stay together, in their order; that of all others does not matter, but where
    a query says that it does.
    """
    table = trial.table
    times = [row[trial.time] for row in plain_rows(table)]
    words = ("TIES arrival", "SKIP", "FIRST(", "LAST(")
    if not times or any(word in trial.text for word in words):
        return table, 10**9
    shuffled = sorted(set(times))
    Random(trial.text).shuffle(shuffled)  # no secret
    tick = 1
    if pa.types.is_integer(value_type(table.schema.field(trial.time).type)):
        tick = TICK_NS[trial.time_unit]
    span = (max(times) - min(times)) * tick
    rows = sorted(range(len(times)), key=lambda row: shuffled.index(times[row]))
    # Arrow has no rows to take of texts that are views.
    return pa.concat_tables([table.slice(row, 1) for row in rows]), span + 10**9


def _later(trial: Trial, event: pa.Table, delay: int) -> pa.Table:
    """Return an event later by some nanoseconds, and a tick."""
    place = event.column_names.index(trial.time)
    field: Any = event.schema.field(place)
    tick = TICK_NS[getattr(field.type, "unit", trial.time_unit)]
    time = event.column(place).cast(pa.int64())[0].as_py() + delay // tick + 1
    return event.set_column(place, field, pa.array([time], pa.int64()).cast(field.type))
