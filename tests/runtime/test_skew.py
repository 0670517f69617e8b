"""A bucket with most events: found while the query runs, with the start that relieves it."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.runtime.cases import same
from tests.runtime.test_stream import drain, read_stream, sentinel, write_files
from tests.runtime.test_stream_state import parts

from cepheid.api import query
from cepheid.jobs import skew
from cepheid.jobs.skew import BATCHES_MIN, SentEvents, SkewWatch, better_count
from cepheid.runtimes.spark.decisions import Counter
from cepheid.spark.hashes import buckets_of_keys, hashes_of_keys

BUCKETS = 8
EDGES = "RETURN key, COUNT(*) PATTERN A+ WHERE [key] AND A.x < NEXT(A).x GROUP-BY key WITHIN 4 s SLIDE 4 s"  # fmt: skip  # noqa: E501


def colliding(count: int, bucket: int = 2) -> list[int]:
    """Return keys of one bucket, which have different ones if there are more buckets."""
    keys = np.arange(2_000)
    own = keys[buckets_of_keys([pa.array(keys)], BUCKETS) == bucket]
    return [int(key) for key in own[:count]]


def keys_of(heavy: list[int], share: float, count: int) -> np.ndarray:
    """Return keys of events, of which some are as frequent as all others together."""
    chance = np.random.default_rng(5)
    light = np.setdiff1d(np.arange(60), heavy)
    picked = chance.choice(np.array(heavy), count)
    return np.where(chance.random(count) < share, picked, chance.choice(light, count))


def sent(keys: np.ndarray, batch: int, task: int = 0) -> SentEvents:
    """Count keys as a task does."""
    counter = Counter(("key",), BUCKETS)
    place = buckets_of_keys([pa.array(keys)], BUCKETS).astype(np.int64)
    counter.add(pa.table({"key": pa.array(keys)}), place)
    with patch("cepheid.runtimes.spark.decisions.TaskContext") as context:
        context.get().getLocalProperty.return_value = str(batch)
        with patch("cepheid.runtimes.spark.decisions.partition_id", lambda: task):
            found = counter.sent()
    assert found is not None
    return found


def told(keys: np.ndarray, *, splits: bool = False, batches: int = BATCHES_MIN + 1) -> list[str]:
    """Let micro-batches of these keys go by, each of two tasks; return what was proposed."""
    watch, found = SkewWatch(BUCKETS, 1000, splits=splits), []
    for batch in range(batches):
        for task, half in enumerate(np.array_split(keys, 2)):
            one = sent(half, batch, task)
            # A task that runs twice counts once.
            found += [watch.add(one), watch.add(one)]
    return [one for one in found if one]


def test_keys_that_share_a_bucket_get_a_number_of_buckets_that_parts_them() -> None:
    heavy = colliding(4)
    keys = keys_of(heavy, 0.5, 40_000)
    (proposal,) = told(keys, batches=9)
    assert proposal.startswith("bucket 2 of 8 had 4.")
    found = re.search(r"with (\d+) buckets the largest has (\d+)% of the events instead", proposal)
    assert found is not None, proposal
    count, share = int(found[1]), int(found[2]) / 100
    place = buckets_of_keys([pa.array(keys)], count)
    assert abs(np.bincount(place).max() / len(keys) - share) < 0.05
    assert share < 0.3
    assert proposal.endswith(
        f"`--restart-from earliest --buckets {count}`: rows that have left leave again"
    )
    (splitting,) = told(keys, splits=True)
    assert splitting.endswith("go on with `--hot-keys`, which splits such keys")


def test_a_key_that_is_too_large_for_a_task_is_named() -> None:
    (heavy,) = colliding(1)
    keys = keys_of([heavy], 0.5, 40_000)
    (proposal,) = told(keys)
    assert re.search(rf": key {heavy} alone has (49|5\d)% of all events", proposal)
    assert "too many for a task whatever the number of buckets, and this query cannot" in proposal
    assert "--buckets" not in proposal
    (splitting,) = told(keys, splits=True)
    assert "alone has" in splitting
    assert "--hot-keys" in splitting


def test_even_keys_few_events_and_a_single_burst_are_left_alone() -> None:
    even = np.arange(40_000) % 1_000
    assert told(even) == []
    skewed = keys_of(colliding(4), 0.5, 40_000)
    assert told(skewed[: skew.EVENTS_MIN - 1]) == []
    watch = SkewWatch(BUCKETS, 1000, splits=False)
    batches = [even if batch % 3 == 2 else skewed for batch in range(12)]
    assert not any(watch.add(sent(keys, batch)) for batch, keys in enumerate(batches))


@given(
    st.dictionaries(st.integers(-(2**31), 2**31 - 1), st.integers(1, 100), min_size=1),
    st.integers(2, 20),
)
def test_another_number_of_buckets_is_nearly_the_best(sample: dict[int, int], now: int) -> None:
    hashes, weights = np.array([*sample]), np.array([*sample.values()])
    count, share = better_count(hashes, weights, now, 1000)
    loads = [sum(w for h, w in sample.items() if h % count == n) for n in range(count)]
    assert abs(max(loads) / sum(sample.values()) - share) < 1e-9
    for other in range(now + 1, 4 * now + 1):
        most = max(sum(w for h, w in sample.items() if h % other == n) for n in range(other))
        assert share <= 1.1 * most / sum(sample.values()) + 1e-9
    assert now < count <= 4 * now


@pytest.mark.spark
def test_a_proposal_of_a_stream_helps_when_it_is_followed(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = keys_of(colliding(4), 0.5, 2_000)
    times = np.sort(np.random.default_rng(1).choice(20_000, len(keys), replace=False)) * 1000
    events = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "type": ["A"] * len(keys),
            "key": pa.array(keys),
            "x": pa.array(np.arange(len(keys)) % 3 / 2),
        }
    )
    end = sentinel(events.append_column("sector", pa.array([0] * len(events))), 60)
    files = [*parts(events, 400), end.select(events.column_names)]
    folder, q = write_files(tmp_path / "events", files), query(EDGES)

    def run(buckets: int, name: str) -> list[str]:
        caplog.clear()
        spark.conf.set("spark.cepheid.buckets", str(buckets))
        try:
            rows = q.stream(read_stream(spark, folder, 1), watermark="0 seconds")
            written, _ = drain(rows, tmp_path / name, "rows")
        finally:
            spark.conf.unset("spark.cepheid.buckets")
        assert same(written, q.run(events).to_pylist())
        return [one.getMessage() for one in caplog.records if one.name == "cepheid.live"]

    with caplog.at_level(logging.INFO, "cepheid.live"), patch.object(skew, "EVENTS_MIN", 100):
        (proposal,) = run(BUCKETS, "first")
        count = re.search(r"--restart-from earliest --buckets (\d+)", proposal)
        assert count is not None, proposal
        assert run(int(count[1]), "second") == []


def test_hashes_are_those_that_buckets_come_from() -> None:
    keys: list[Any] = [pa.array(["a", None, "b"]), pa.array([1, 2, None])]
    assert (hashes_of_keys(keys) % 7).tolist() == buckets_of_keys(keys, 7).tolist()
