"""Tables that change: ``python -m benchmarks.changes [CHANGES [BATCH]] [--spark]``.

A changelog of which every tenth change updates or deletes a random earlier event. Live queries
follow it batch by batch, in this process and, with ``--spark``, as a stream of Spark over files. In
the end, the changelog of rows must give the rows of a run over the current table. The bars: a
million changes a second in process, 300,000 a second on Spark, for queries whose stretches compose.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.processes import cpu_seconds

WINDOW = "WITHIN 1 minute SLIDE 1 minute"
REPAIRED = {
    "no window": "RETURN COUNT(*) PATTERN SEQ(A+, B)",
    "windows": f"RETURN COUNT(*) PATTERN SEQ(A+, B) {WINDOW}",
    "windows by key": f"RETURN key, COUNT(*) PATTERN SEQ(A+, B) GROUP-BY key {WINDOW}",
    "sums by key": "RETURN key, COUNT(*), SUM(A.x), MIN(B.x) PATTERN SEQ(A+, B) GROUP-BY key "
    "WITHIN 1 minute SLIDE 30 seconds",
}
ANEW = {
    "falling trends by key": "RETURN key, COUNT(*) PATTERN A+ WHERE A.x > NEXT(A).x "
    f"GROUP-BY key {WINDOW}",
    "SELECT by key": "SELECT key, COUNT(*) AS n, SUM(x) AS s FROM Events GROUP BY key "
    "WINDOW 1 minute",
}
CHANGES = {"op": "op", "id": ["key", "id"]}
FILES = 2
"""Files of a micro-batch: a source has several partitions."""
WARMING, SMALL = 20, 5000
"""Micro-batches before those that are measured, and the most changes of one."""
BARS = {"in process": 1e6, "Spark": 3e5}


def changelog(count: int, *, keys: int = 100, a_second: int = 10_000, share: float = 0.1) -> Any:
    """Return a changelog: mostly inserts in the order of time, some changes of earlier events."""
    import numpy as np
    import pyarrow as pa

    draw = np.random.default_rng(1)
    kind = draw.random(count)
    changes = kind < share
    changes[:1000] = False
    new = np.cumsum(~changes)
    ids = np.where(changes, (draw.random(count) * new).astype(np.int64) + 1, new)
    shift = np.where(changes, draw.integers(-2_000_000, 2_000_000, count), 0)
    op = np.where(changes, np.where(kind < share / 2, 2, 1), 0).astype(np.int8)
    types = draw.integers(0, 3, count).astype(np.int8)

    def texts(codes: Any, names: list[str]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names)).cast(pa.string())

    columns: dict[str, Any] = {
        "op": texts(op, ["c", "u", "d"]),
        "id": ids,
        "ts": pa.array(ids * (1_000_000 // a_second) + shift, pa.timestamp("us")),
        "type": texts(types, ["A", "B", "C"]),
        # An event keeps its key.
        "key": (ids * 7919) % keys,
        "x": draw.integers(0, 1000, count),
    }
    return pa.table(columns)


def check(text: str, table: Any, told: list[Any]) -> int:
    """Compare the rows that a changelog of rows gives with a run; return how many there are."""
    import warnings

    import numpy as np
    import pyarrow as pa

    import cepheid

    rows = pa.concat_tables(told)
    last = {name: place for place, name in enumerate(rows["row_id"].to_pylist())}
    now = rows.take(pa.array(sorted(last.values()), pa.int64()))
    now = now.filter(pa.compute.field("op") != "delete")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = cepheid.query(text).run(table, changes=CHANGES)
    names = known.column_names
    assert len(now) == len(known), (len(now), len(known))
    order: Any = [(name, "ascending") for name in names[: max(len(names) - 2, 1)]]
    now, known = (one.select(names).sort_by(order) for one in (now, known))
    for name in names:
        mine, theirs = (one[name].to_numpy() for one in (now, known))
        if mine.dtype.kind == "f":
            assert np.allclose(mine, theirs, rtol=1e-9, equal_nan=True), name
        else:
            assert (mine == theirs).all(), name
    return len(known)


def in_process(text: str, table: Any, batch: int) -> tuple[float, float, list[Any]]:
    """Follow a changelog in this process; return seconds, seconds of CPU, and the rows."""
    import cepheid

    query = cepheid.query(text)
    parts = [table.slice(begin, batch) for begin in range(0, len(table), batch)]
    warm = query.live(table.schema, changes=CHANGES)
    for part in parts[:5]:
        warm.feed(part)
    live = query.live(table.schema, changes=CHANGES)
    begun, cpu = time.perf_counter(), time.process_time()
    told = [live.feed(part) for part in parts]
    return time.perf_counter() - begun, time.process_time() - cpu, told


def on_spark(
    text: str, table: Any, batch: int, folder: Path, *, frame: bool = False
) -> tuple[float, float, list[Any]]:
    """Follow a changelog as a stream of files; return seconds, CPU seconds, and the rows.

    Files are read as ``cepheid stream`` does or, of a ``frame``, by Spark.

    Small micro-batches start workers and let Java compile, and so does the first half of the
    others: they do not count. CPU seconds are those of Spark and all its workers.
    """
    import warnings

    import pyarrow as pa
    import pyarrow.parquet as pq

    import cepheid
    from cepheid.spark.file_records import read_folder
    from cepheid.spark.session import session

    source = folder / "changes"
    source.mkdir()
    small = min(SMALL, batch // 10)
    begins = [*range(0, WARMING * small, small), *range(WARMING * small, len(table), batch)]
    for number, (begin, end) in enumerate(pairwise([*begins, len(table)])):
        some = table.slice(begin, end - begin)
        for part in range(FILES):
            # All changes of an event are in one part, in order, as a topic of Kafka has them.
            own = some.filter(pa.array(some["key"].to_numpy() % FILES == part))
            pq.write_table(own, source / f"{number:04}-{part}.parquet")
            time.sleep(0.002)  # Files are read by their times.
    with warnings.catch_warnings(), session("local[2]") as spark:
        warnings.simplefilter("ignore")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        spark.conf.set("spark.cepheid.buckets", "2")
        schema = spark.read.parquet(str(source)).schema
        if frame:
            reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES)
            changes = reader.parquet(str(source))
        else:
            changes = read_folder(spark, str(source), "parquet", schema, FILES)
        rows = cepheid.query(text).stream(changes, watermark="1 hour", changes=CHANGES)
        told: list[Any] = []
        cpu: list[float] = []

        def take(one: Any, _: int) -> None:
            told.append(one.toArrow())
            cpu.append(cpu_seconds())

        writer = rows.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        live = writer.trigger(availableNow=True).start()
        live.awaitTermination()
        shown = [p for p in live.recentProgress if p["numInputRows"]]
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in shown]
    sizes = [end - begin for begin, end in pairwise([*begins, len(table)])]
    assert len(took) == len(sizes), "a micro-batch has the files of one number"
    warm = WARMING + (len(took) - WARMING) // 2
    # Tasks that read files themselves are told of files alone, so Spark counts these.
    share = len(table) / sum(sizes[warm:])
    return sum(took[warm:]) * share, (cpu[-1] - cpu[warm - 1]) * share, told


def main(count: int, batch: int, *, spark: bool) -> None:
    """Print how many changes a second each query follows, those below the bar first."""
    table = changelog(count)
    print(f"{count:,} changes, every tenth an update or a delete, {batch:,} at once", flush=True)
    found: list[tuple[float, str]] = []
    for name, text in (REPAIRED | ANEW).items():
        some = table if name in REPAIRED else table.slice(0, min(count, 4 * batch))
        took, cpu, told = in_process(text, some, batch)
        rows = check(text, some, told)
        speed, of_cpu = len(some) / took, len(some) / cpu
        line = (
            f"in process  {name:<22} {speed:>10,.0f}/s {of_cpu:>10,.0f}/s of CPU  {rows:>7,} rows"
        )
        bar = BARS["in process"]
        ratio = speed / bar if name in REPAIRED else 1e9
        found.append((ratio, line + (f"  {ratio:.2f} of the bar" if name in REPAIRED else "")))
    if spark:
        text = REPAIRED["windows by key"]
        for way in ("files", "a DataFrame"):
            with tempfile.TemporaryDirectory() as folder:
                took, cpu, told = on_spark(text, table, batch, Path(folder), frame=way != "files")
            rows, speed = check(text, table, told), len(table) / took
            ratio = speed / BARS["Spark"]
            of_cpu = len(table) / cpu
            line = f"Spark       {f'by key, {way}':<22} {speed:>10,.0f}/s {of_cpu:>10,.0f}/s of CPU"
            line += f"  {rows:>7,} rows"
            found.append((ratio, f"{line}  {ratio:.2f} of the bar"))
    for _, line in sorted(found, key=lambda one: one[0]):
        print(line)


if __name__ == "__main__":
    given = [int(word.replace("_", "")) for word in sys.argv[1:] if word[0] != "-"]
    chosen = (given[0] if given else 2_000_000, given[1] if len(given) > 1 else 200_000)
    main(*chosen, spark="--spark" in sys.argv)
