"""Shedding: which events a live query drops, and what its rows tell of them (§13.6)."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.runtime.test_stream import drain, read_stream, sentinel, write_files
from tests.runtime.test_stream_state import FOREVER, parts, shuffled

from cepheid.api import CompiledQuery, query
from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError
from cepheid.jobs.microbatch import live_job, turn
from cepheid.jobs.shed_turn import ShedArrived, read_shed, shed_turn
from cepheid.jobs.shedding import KEEP_MAX, QUICK_MIN, SLOW_MIN, Level, Shed, kept
from cepheid.jobs.work import Work
from cepheid.options import LiveOptions, OptionError
from cepheid.runtimes.spark.shedding import shed_of, why_not_shed
from cepheid.spark.schema import result_schema_of

pytestmark = pytest.mark.timeout(600)

SELECT = "SELECT key, COUNT(*) AS n, SUM(x) AS total FROM s WHERE x < 8 GROUP BY key WINDOW 4 s SLIDE 2 s"  # fmt: skip  # noqa: E501
PAIRS = "RETURN key, COUNT(*) PATTERN SEQ(A, B) WHERE [key] GROUP-BY key WITHIN 4 s SLIDE 2 s"


def events_of(count: int, keys: int = 5, seed: int = 1) -> pa.Table:
    """Make events of a minute, of which some have no key."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, keys, count)
    return pa.table(
        {
            "ts": pa.array(np.sort(rng.choice(60_000_000, count, replace=False))),
            "type": pa.array(rng.choice(["A", "B"], count)),
            "key": pa.array(drawn, mask=drawn == 4),
            "x": pa.array(rng.integers(0, 9, count)),
        }
    )


class LiveShed:
    """A live query that sheds; its one bucket gets what tasks would send."""

    def __init__(self, compiled: CompiledQuery, table: pa.Table, folder: Path) -> None:
        self.plan = compiled.with_schema(table.schema).plan
        results = result_schema_of(self.plan, table.schema)
        self.work = Work.of(self.plan, table.schema, results, 1, delay=1_000_000)
        asked = LiveOptions("1 second", shed="1 second", shed_notes=str(folder))
        found = shed_of(self.plan, asked, results, lambda _: 1_000_000)
        assert found is not None
        self.by: Shed = found
        self.data: bytes | None = None
        self.rows: list[dict[str, Any]] = []
        self.kept: list[pa.Table] = []
        self.shed = self.number = 0

    def feed(self, batch: pa.Table, latest: int | None = None, took_ms: int = 0) -> None:
        """Process a micro-batch, twice: the first attempt is lost."""
        keeps = self.work.kind.keeps(self.plan)
        if keeps is not None and len(batch):
            batch_kept = batch.filter(pa.array(np.asarray(keeps(Columns(batch)))))
        else:
            batch_kept = batch
        times = read_times(Columns(batch_kept), "ts")
        stays = kept(self.by.levels(), times)
        gone = batch_kept.filter(pa.array(~stays))
        dropped = [self.by.dropped(gone, times[~stays])] if len(gone) else []
        home = batch_kept.filter(pa.array(stays))
        self.kept.append(home)
        if latest is None and len(batch):
            latest = int(read_times(Columns(batch), "ts").max())
        self.number += 1
        came = ShedArrived([home], dropped, 0, self.number, decides=True)
        shed_turn(self.work, self.by, self.data, came, latest)
        self.data, outcome = shed_turn(self.work, self.by, self.data, came, latest)
        self.by.note_pace(0, self.number, took_ms)
        self.rows += outcome.results.to_pylist()
        self.shed += outcome.shed

    def windows(self) -> dict[int, int]:
        """Read the dropped events of each window that closed."""
        found: dict[int, int] = {}
        for path in Path(self.by.folder, "windows").glob("*.jsonl"):
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                assert row["window_end"] - row["window_start"] == self.by.within
                found[row["window_start"]] = found.get(row["window_start"], 0) + row["shed"]
        return found


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window_start"], row["key"] is None, row["key"]


@given(st.integers(0, 1000))
def test_rows_are_those_of_the_kept_events_and_tell_of_the_others(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    table = events_of(200, seed=seed)
    live = LiveShed(query(SELECT), table, tmp_path_factory.mktemp("shed"))
    rng = np.random.default_rng(seed)
    for since in rng.choice(60_000_000, 3, replace=False):
        live.by.note_level(Level(int(since), 2 ** int(rng.integers(0, 4))))
    for part in parts(shuffled(table, 900_000, seed), 1 + seed % 70):
        live.feed(part)
    live.feed(table.slice(0, 0), FOREVER)
    kept_rows = query(SELECT).run(pa.concat_tables(live.kept)).to_pylist()
    shown = sorted(live.rows, key=_place)
    assert [{k: v for k, v in row.items() if k != "shed"} for row in shown] == kept_rows
    whole = {_place(row): row["n"] for row in query(SELECT).run(table).to_pylist()}
    assert all(row["n"] + row["shed"] == whole[_place(row)] for row in shown), "COUNT is exact"
    lacking: dict[int, int] = {}
    for place, count in whole.items():
        lacking[place[0]] = lacking.get(place[0], 0) + count
    for row in kept_rows:
        lacking[row["window_start"]] -= row["n"]
    assert live.windows() == {start: n for start, n in lacking.items() if n}
    assert live.shed + sum(map(len, live.kept)) == int((table["x"].to_numpy() < 8).sum())
    assert read_shed(live.data).counted == b"", "what is closed is forgotten"


def test_trends_lose_matches_and_tell_how_many_events_are_missing(tmp_path: Path) -> None:
    table = events_of(400)
    live = LiveShed(query(PAIRS), table, tmp_path)
    live.by.note_level(Level(20_000_000, 4))
    for part in parts(table, 100):
        live.feed(part.filter(pc.is_valid(part["key"])))
    live.feed(table.slice(0, 0), FOREVER)
    whole = {_place(row): row["count"] for row in query(PAIRS).run(table).to_pylist()}
    for row in live.rows:
        assert row["count"] <= whole[_place(row)]
        if row["window_end"] <= 20_000_000:
            assert (row["shed"], row["count"]) == (0, whole[_place(row)])
    assert sum(row["shed"] for row in live.rows) > 0


def test_a_level_is_a_part_of_the_level_before() -> None:
    times = np.arange(0, 1_000_000, 100)
    before = np.ones(len(times), np.bool_)
    for keep in (2, 4, 8, 64):
        now = kept([Level(0, keep)], times)
        assert not (now & ~before).any()
        assert abs(now.mean() * keep - 1) < 0.25
        before = now
    later = kept([Level(500_000, 2), Level(800_000, 1)], times)
    assert later[times < 500_000].all()
    assert later[times >= 800_000].all()
    assert not later.all()


def test_levels_follow_what_micro_batches_take(tmp_path: Path) -> None:
    table = events_of(1_000)
    live = LiveShed(query(SELECT), table, tmp_path)
    takes = [1_500] * (SLOW_MIN + 1) + [9_000] * SLOW_MIN + [800] * 3 + [100] * (QUICK_MIN + 1)
    levels = []
    for number, took_ms in enumerate(takes):
        live.feed(table.slice(number * 40, 40), took_ms=took_ms)
        levels.append([level.keep for level in live.by.levels()])
    assert levels[SLOW_MIN - 1] == []
    assert levels[SLOW_MIN] == [2], "three in a row took too long"
    assert levels[2 * SLOW_MIN] == [2, 32], "by how much they take too long"
    assert levels[-1] == [2, 32, 16], "ten in a row had time left"
    assert max(level.keep for level in live.by.levels()) <= KEEP_MAX
    assert live.by.pace(live.number) == 0
    assert not list(Path(tmp_path, "pace").iterdir()), "what is judged is forgotten"


def test_a_micro_batch_that_is_repeated_after_an_hour_does_not_drop_nearly_all(
    tmp_path: Path,
) -> None:
    table = events_of(400)
    live = LiveShed(query(SELECT), table, tmp_path)
    for number, took_ms in enumerate([1_500, 1_500, 1_500, 3_600_000, 100]):
        live.feed(table.slice(number * 40, 40), took_ms=took_ms)
    assert [level.keep for level in live.by.levels()] == [2]


def test_notes_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    live = LiveShed(query(SELECT), events_of(10), tmp_path)
    live.by.note_level(Level(-4_000_000, 2))
    live.by.note_pace(3, 7, 5_000)
    for folder in ("levels", "pace"):
        Path(tmp_path, folder, ".nfs0001").touch()
    assert live.by.levels() == [Level(-4_000_000, 2)]
    assert (live.by.pace(7), live.by.pace(8)) == (5_000, 0)
    assert [path.name for path in Path(tmp_path, "pace").iterdir()] == [".nfs0001"]


def test_a_query_that_did_not_shed_goes_on_but_not_the_other_way_round(tmp_path: Path) -> None:
    table = events_of(100)
    live = LiveShed(query(SELECT), table, tmp_path)
    live.data, _ = turn(live_job(live.work), live.work, None, [table.slice(0, 10)], 0)
    live.feed(table.slice(10))
    with pytest.raises(DataError, match=r"E524.*kind `shed`"):
        turn(live_job(live.work), live.work, live.data, [], None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SELECT, ""),
        (PAIRS, ""),
        ("SELECT x FROM s", "only aggregates"),
        ("SELECT COUNT(*) AS n FROM s WINDOW 10 EVENTS", "only aggregates"),
        ("SELECT COUNT(*) AS n FROM s WINDOW SESSION 10 s", "only aggregates"),
        ("SELECT COUNT(*) AS n FROM s WINDOW 1 s HAVING COUNT(*) > 9", "HAVING"),
        ("RETURN MATCHES PATTERN A WITHIN 1 s SLIDE 1 s", "only aggregates"),
        ("RETURN key, COUNT(*) PATTERN A GROUP-BY key WITHIN 1 s", "windows with SLIDE"),
        (PAIRS + " HAVING COUNT(*) < 9", "HAVING"),
        (PAIRS.replace("(A, B)", "(A, NOT C, B)"), "NOT would find"),
        (PAIRS.replace("WITHIN", "SEMANTICS next WITHIN"), "follow each other"),
        ("RETURN COUNT(*) PATTERN A WITHIN 1 s SLIDE 1 s", "panes"),
    ],
)
def test_other_queries_say_why_they_do_not_shed(text: str, why: str) -> None:
    found = why_not_shed(query(text).plan)
    assert why in found
    assert bool(why) == bool(found)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"shed": "1 s"}, "E592.*needs a folder"),
        ({"shed_notes": "folder"}, "E591.*nothing is dropped"),
        ({"shed": "0 s", "shed_notes": "folder"}, "E590.*at least 1 ms"),
        ({"shed": "1 s", "shed_notes": "folder", "late": "side"}, "E591.*late events"),
        ({"shed": "1 s", "shed_notes": "folder", "hot_keys": "folder"}, "E591.*hot keys"),
        ({"shed": "1 s", "shed_notes": "folder", "marks": True}, "E591.*queries that follow"),
    ],
)
def test_options_that_do_not_go_together(asked: dict[str, Any], why: str) -> None:
    options = LiveOptions("1 second", **asked)
    lengths = {"1 s": 1_000_000, "0 s": 0}
    with pytest.raises(OptionError, match=why):
        shed_of(query(SELECT).plan, options, pa.schema([]), lengths.__getitem__)


@pytest.mark.spark
@pytest.mark.parametrize("text", [SELECT, PAIRS])
def test_micro_batches_that_take_too_long_on_spark(
    spark: SparkSession, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No micro-batch takes less than a millisecond, so each is too slow."""
    table = events_of(800, keys=4)
    events = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")))
    end = sentinel(events.append_column("sector", pa.array([0] * len(events))), 60)
    files = [*parts(events, 80), end.select(events.column_names)]
    q, folder = query(text), str(tmp_path / "shed")

    def go_on(found: list[pa.Table]) -> tuple[pa.Table, list[Any]]:
        source = read_stream(spark, write_files(tmp_path / "events", found), 1)
        rows = q.stream(source, watermark="0 seconds", shed="1 ms", shed_notes=folder)
        return drain(rows, tmp_path, "rows")

    _, first = go_on(files[:6])
    with caplog.at_level(logging.INFO, "cepheid.live"):
        written, second = go_on(files[6:])
    told = [one.getMessage() for one in caplog.records if one.name == "cepheid.live"]
    assert told
    assert len(set(told)) == len(told)
    pattern = r"a micro-batch may take 0.001 s: from \d+ on, one of \d+ times is kept"
    assert all(re.fullmatch(pattern, one) for one in told)
    counts = [p["observedMetrics"]["cepheid"]["shed"] or 0 for p in [*first, *second]]
    assert sum(counts[:SLOW_MIN]) == 0
    assert sum(counts) > 0
    name = "n" if text == SELECT else "count"
    whole = {(r["key"], r["window_start"]): r[name] for r in q.run(events).to_pylist()}
    rows = written.to_pylist()
    assert sum(row["shed"] for row in rows) > 0
    for row in rows:
        of_all = whole[row["key"], row["window_start"]]
        assert row[name] + (row["shed"] if text == SELECT else 0) <= of_all
        if text == SELECT or not row["shed"]:
            assert row[name] + row["shed"] == of_all
    source = read_stream(spark, tmp_path / "events", 1)
    with pytest.raises(OptionError, match=r"E591.*only aggregates"):
        query("SELECT x FROM s").stream(source, watermark="1 second", shed="1 second")
