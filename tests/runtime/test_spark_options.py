"""Options of runs on Spark are used or refused too; ``tests/unit/test_options.py`` has the rest."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

import cepheid

pytestmark = pytest.mark.spark

EVENTS = pa.table({"ts": pa.array([1, 2], pa.timestamp("us")), "type": ["A", "B"], "x": [1, 2]})
COUNT = "RETURN COUNT(*) PATTERN A WITHIN 1 s SLIDE 1 s"
SELECT = "SELECT COUNT(*) FROM s WINDOW 1 s"
CLAUSE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS x > 0)"


class Inputs:
    """The same events in everything that Spark reads."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        (folder / "events").mkdir()
        parquet.write_table(EVENTS, folder / "events" / "events.parquet")
        self.path = str(folder / "events")
        self.frame: DataFrame = spark.read.parquet(self.path)
        self.stream = spark.readStream.schema(self.frame.schema).parquet(self.path)
        self.store = cepheid.EventStore(folder / "store", time="ts")
        self.store.append(EVENTS)


@pytest.fixture
def inputs(spark: SparkSession, tmp_path: Path) -> Inputs:
    return Inputs(spark, tmp_path)


def runs(i: Inputs) -> dict[str, Callable[[], Any]]:
    """Return calls that must be refused."""
    count, select, rules = cepheid.query(COUNT), cepheid.query(SELECT), cepheid.workload([COUNT])
    session: dict[str, Any] = {"spark": i.spark}
    found: dict[str, Callable[[], Any]] = {}
    for kind, events, more in (
        ("frame", i.frame, {}),
        ("frame and session", i.frame, session),
        ("path", i.path, session),
        ("store", i.store, session),
    ):
        for name, value in (("device", "gpu"), ("device", "x"), ("strategy", "x")):
            given: dict[str, Any] = {**more, name: value}
            found[f"{kind} {name} {value}"] = partial(count.run, events, **given)
            found[f"select {kind} {name} {value}"] = partial(select.run, events, **given)
            if name == "device":
                found[f"rules {kind} {value}"] = partial(rules.run, events, **given)
    found |= {
        "index of frame": partial(count.run, i.frame, strategy="index"),
        "one task": partial(count.run, i.frame, strategy="one task"),
        "slices of store": partial(count.run, i.store, strategy="scan slices", **session),
        "strategy of a SELECT": partial(select.run, i.frame, strategy="combine"),
        "table and session": partial(count.run, EVENTS, **session),
        "rules, table and session": partial(rules.run, EVENTS, **session),
        "stream": partial(count.run, i.stream),
        "stream of a SELECT": partial(select.run, i.stream),
        "stream of rules": partial(rules.run, i.stream),
        "matches": partial(cepheid.query("PATTERN A").matches, i.frame),
        "explain": partial(count.explain, store=i.frame),
        "session as events": partial(count.run, i.spark),
    }
    streams: tuple[tuple[str, Any], ...] = (("query", count), ("select", select), ("rules", rules))
    for name, live in streams:
        found |= {
            f"{name} no stream": partial(live.stream, i.frame, watermark="1 second"),
            f"{name} late": partial(live.stream, i.stream, watermark="1 second", late="x"),
            f"{name} watermark": partial(live.stream, i.stream, watermark="10m"),
            f"{name} number": partial(live.stream, i.stream, watermark=5),
        }
    asked: tuple[dict[str, Any], ...] = ({"strategy": "index"},)
    for one in asked:
        found[f"sql {one}"] = partial(cepheid.sql, i.spark, CLAUSE, tables={"t": i.frame}, **one)
    return found


def test_what_means_nothing_is_refused(inputs: Inputs) -> None:
    codes = {}
    for name, run in runs(inputs).items():
        try:
            run()
        except cepheid.CepheidError as error:
            codes[name] = error.diagnostics[0].code
        else:
            codes[name] = "nothing"
    wrong = {n: c for n, c in codes.items() if c not in ("E405", "E552", "E590", "E591", "E592")}
    assert not wrong
