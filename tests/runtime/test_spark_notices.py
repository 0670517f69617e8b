"""What is odd about the events of a Spark run is told when its last task has ended."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.amount import share
from tests.runtime.test_stream import drain, read_stream, write_files

import cepheid
from cepheid.runtimes import notices
from cepheid.runtimes.notices import NOTICES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLICKS = pa.table(
    {
        "ts": [1_700_000_000, 1_700_000_001, 1_700_000_002, 1_700_000_003],
        "type": ["product", "addcart", "product", "order"],
        "visit": [1, 1, 2, 1],
    }
)
WINDOWED = "RETURN COUNT(*) PATTERN SEQ(product p, Addcart order) WITHIN 1 minute SLIDE 1 minute"
CASED = "RETURN visit, COUNT(*) PATTERN SEQ(product p, Addcart order) WHERE [visit] GROUP-BY visit"
RIGHT = "RETURN visit, COUNT(*) PATTERN SEQ(product, addcart) WHERE [visit] GROUP-BY visit"


def _warned(action: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    told = [str(one.message) for one in found if issubclass(one.category, UserWarning)]
    return [text for text in told if text.endswith(NOTICES)]


def _told(frame: DataFrame) -> list[str]:
    return _warned(frame.toArrow)


@share(2)
@pytest.mark.parametrize(
    ("text", "strategy"),
    [(CASED, "key shuffle"), (CASED, "combine"), (WINDOWED, "time shuffle")],
)
def test_a_frame_tells_what_is_odd(spark: SparkSession, text: str, strategy: str) -> None:
    frame = spark.createDataFrame(CLICKS)
    rows = cepheid.query(text).run(frame, strategy=strategy)
    told = _told(rows)
    assert [one for one in told if "W206" in one] == ["no event has the type `Addcart` (W206)"]
    assert any("look like seconds" in one and "W208" in one for one in told)
    assert _told(rows) == [], "once"


def test_a_frame_without_oddities_tells_nothing(spark: SparkSession) -> None:
    assert _told(cepheid.query(RIGHT, time_unit="s").run(spark.createDataFrame(CLICKS))) == []


FUNNEL = "RETURN FUNNEL(visit) PATTERN SEQ(product p, {} a)"
STAGES = (
    "CREATE STREAM Seen AS SELECT visit FROM clicks; "
    "RETURN visit, COUNT(*) PATTERN SEQ(Seen s, {} a) WHERE [visit] GROUP-BY visit"
)


@pytest.mark.parametrize("text", [FUNNEL, STAGES], ids=["funnel", "pipeline"])
def test_funnels_and_stages_tell_of_their_types(spark: SparkSession, text: str) -> None:
    frame = spark.createDataFrame(CLICKS)
    right = cepheid.query(text.format("addcart"), time_unit="s").run(frame)
    assert _told(right) == []
    told = _told(cepheid.query(text.format("Addcart"), time_unit="s").run(frame))
    assert [one for one in told if one.startswith("no event has the type `Addcart`")] == told
    assert len(told) == 1


def test_files_tell_what_was_meant(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(CLICKS, tmp_path / "e.parquet")
    told = _told(cepheid.query(CASED).run(tmp_path / "e.parquet", spark=spark))
    assert any("did you mean `addcart`?" in one and "W206" in one for one in told), told
    assert any("`order` is a type of the data" in one and "W207" in one for one in told)
    assert any("W208" in one for one in told)


def test_warnings_as_errors_do_not_end_a_run(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    frame = spark.createDataFrame(CLICKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cepheid.query(CASED).run(frame).toArrow().num_rows == 0
    assert any("W206" in one for one in caplog.messages)


def test_a_workload_tells_what_is_odd(spark: SparkSession) -> None:
    frame = spark.createDataFrame(CLICKS)
    rules = {"cased": CASED, "right": RIGHT, "also": RIGHT.replace("addcart", "order")}
    told = _told(cepheid.workload(rules).run(frame))
    assert [one for one in told if "W206" in one] == ["no event has the type `Addcart` (W206)"]
    assert len([one for one in told if "W208" in one]) == 1


WINDOWS = "SELECT COUNT(*) FROM Stream WINDOW 1 minute"


def test_a_select_tells_times_of_another_unit(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(CLICKS)
    parquet.write_table(CLICKS, tmp_path / "e.parquet")
    store = cepheid.EventStore(tmp_path / "store")
    store.append(CLICKS)
    query = cepheid.query(WINDOWS)
    path = str(tmp_path / "e.parquet")
    everywhere: list[tuple[Any, Any]] = [
        *((frame, None), (path, spark), (store, spark)),
        *((CLICKS, None), (path, None), (store, None)),
    ]
    for events, where in everywhere:
        told = _warned(functools.partial(query.run, events, spark=where))
        assert ["W208" in one for one in told] == [True], (events, where)
    assert _warned(lambda: cepheid.query(WINDOWS, time_unit="s").run(frame)) == []


@share(3)
@pytest.mark.parametrize("text", [CASED, WINDOWED])
@pytest.mark.parametrize("strategy", ["auto", "index", "replay"])
def test_a_store_on_spark_tells_what_is_odd(
    spark: SparkSession, tmp_path: Path, text: str, strategy: str
) -> None:
    store = cepheid.EventStore(tmp_path / "store")
    store.append(CLICKS)
    store.index("type")
    query = cepheid.query(text)
    told = _warned(lambda: query.run(store, spark=spark, strategy=strategy).toArrow())
    missing = [one for one in told if "W206" in one]
    assert [one.startswith("no event has the type `Addcart`") for one in missing] == [True], told
    assert sum("W208" in one for one in told) == 1, told


def test_a_join_tells_times_of_another_unit() -> None:
    text = "SELECT a.visit FROM A a JOIN B b ON a.visit = b.visit WINDOW 1 minute"
    told = _warned(lambda: cepheid.query(text).run({"A": CLICKS, "B": CLICKS}))
    assert ["W208" in one for one in told] == [True]


LIVE = """
    RETURN visit, COUNT(*) PATTERN SEQ(product p, Addcart order)
    WHERE [visit] GROUP-BY visit WITHIN 1 minute SLIDE 1 minute
"""
CALLED = "no event so far has the type `Addcart`: did you mean `addcart`?"


def _live(spark: SparkSession, folder: Path, query: Any, files: int) -> list[str]:
    write_files(folder / "source", [CLICKS] * files)
    events = read_stream(spark, folder / "source", 1)
    return _warned(lambda: drain(query.stream(events, watermark="1 second"), folder, "live"))


@pytest.mark.parametrize("semantics", ["skip-till-any-match", "contiguous"])
def test_a_stream_tells_once_what_is_odd(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, semantics: str
) -> None:
    monkeypatch.setattr(notices, "LIVE_EVENTS_MIN", 8)
    query = cepheid.query(LIVE.replace("WHERE", f"SEMANTICS {semantics} WHERE"))
    told = _live(spark, tmp_path, query, 4)
    assert [one.startswith(CALLED) for one in told if "W206" in one] == [True]
    assert ["`order` is a type of the data" in one for one in told if "W207" in one] == [True]
    assert ["look like seconds" in one for one in told if "W208" in one] == [True]


def test_a_stream_of_few_events_may_have_types_later(spark: SparkSession, tmp_path: Path) -> None:
    told = _live(spark, tmp_path, cepheid.query(LIVE), 1)
    assert sorted(one[-6:] for one in told) == ["(W207)", "(W208)"]


def test_live_rules_tell_once_what_is_odd(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "LIVE_EVENTS_MIN", 8)
    rules = cepheid.workload({"cased": LIVE, "again": LIVE})
    told = _live(spark, tmp_path, rules, 4)
    assert sorted(one[-6:] for one in told) == ["(W206)", "(W207)", "(W208)"]


@pytest.mark.parametrize("text", [WINDOWS, "SELECT COUNT(*) FROM Stream WINDOW 2 EVENTS"])
def test_a_live_select_tells_times_of_another_unit(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    query = cepheid.query(text)
    told = _live(spark, tmp_path, query, 2)
    assert ["W208" in one for one in told] == [True]
