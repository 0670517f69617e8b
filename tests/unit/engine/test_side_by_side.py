"""Threads own ranges of time: where a stream is cut, and which events a range gets."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cepheid
from cepheid.errors import DataError
from cepheid.jobs import side_by_side
from cepheid.jobs.local_jobs import local_job
from cepheid.jobs.side_by_side import Range, cut_ranges
from cepheid.kinds.trend.local import LocalTrends

QUERY = "RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 4 us SLIDE 2 us"


def events(times: list[int]) -> pa.Table:
    return pa.table({"ts": times, "type": ["A" if n % 3 else "B" for n in range(len(times))]})


def cut(batches: list[list[int]], reach: tuple[int, int]) -> list[tuple[object, object, list[int]]]:
    ranges: Iterator[Range] = cut_ranges(map(events, batches), "ts", reach, 3)
    return [
        (owned.begin, owned.end, [int(t) for table in tables for t in np.asarray(table["ts"])])
        for owned, tables in ranges
    ]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "RANGE_ROWS", 3)
    monkeypatch.setattr(side_by_side, "thread_count", lambda: 2)


def test_ranges_hold_what_their_windows_reach() -> None:
    # time    0 1 2 3 4 5 6 7 8 9
    # range 1 =========+
    # range 2         =========+
    found = cut([list(range(10))], (0, 1))
    assert found == [
        (None, 4, [0, 1, 2, 3, 4]),
        (4, 8, [4, 5, 6, 7, 8]),
        (8, None, [8, 9]),
    ]


def test_ranges_end_where_windows_do() -> None:
    # time    0 1 2 3 4 5 6 7 8 9 10
    # windows |---------|---------|
    ranges = cut_ranges(iter([events(list(range(11)))]), "ts", (0, 0), 3, stride=5)
    found = [
        (owned.begin, owned.end, sum(len(table) for table in tables)) for owned, tables in ranges
    ]
    assert found == [(None, 5, 5), (5, 10, 5), (10, None, 1)]


def test_windows_that_do_not_overlap_reach_into_no_other_range() -> None:
    job = local_job(cepheid.query(QUERY.replace("SLIDE 2", "SLIDE 4")).plan)
    assert isinstance(job, LocalTrends)
    assert (job.reach, job.stride) == ((0, 0), 4)


def test_a_range_reads_events_before_it() -> None:
    found = cut([[0, 1, 2], [3, 4, 5], [6, 7, 8, 9]], (1, 0))
    assert found[:2] == [(None, 4, [0, 1, 2, 3]), (4, 8, [3, 4, 5, 6, 7])]
    assert found[2] == (8, None, [7, 8, 9])


def test_no_range_ends_while_events_of_its_last_time_may_come() -> None:
    found = cut([[0, 1, 2, 3], [3, 3, 4]], (0, 0))
    assert found == [(None, 3, [0, 1, 2]), (3, 4, [3, 3, 3]), (4, None, [4])]


def test_windows_that_reach_far_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "WAITING_ROWS_MAX", 5)
    found = cut([[n] for n in range(20)], (0, 1000))
    assert found == [(None, None, list(range(20)))]


def test_events_out_of_order_are_reported_though_each_range_is_in_order() -> None:
    batches = [events([0, 1, 2, 3, 4, 5]), events([4, 6, 7])]
    reader = pa.RecordBatchReader.from_batches(
        batches[0].schema, [b for table in batches for b in table.to_batches()]
    )
    with pytest.raises(DataError, match="E509"):
        cepheid.query(QUERY).run(reader)


def test_rows_come_in_the_order_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    table = events(list(range(200)))
    threads = cepheid.query(QUERY).run(table)
    monkeypatch.setattr(side_by_side, "thread_count", lambda: 1)
    assert threads.equals(cepheid.query(QUERY).run(table))


def test_ranges_are_shorter_where_an_event_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "RANGE_ROWS", 100)
    monkeypatch.setattr(side_by_side, "HEAVY_RANGE_ROWS", 50)
    tumbling = "PATTERN SEQ(A+, B) {} WITHIN 10 us SLIDE 10 us"
    counted = Counter[str]()
    answer = LocalTrends.answer_owned

    def noted(self: LocalTrends, *arguments: Any) -> pa.Table:
        counted[text] += 1
        return answer(self, *arguments)

    monkeypatch.setattr(LocalTrends, "answer_owned", noted)
    for text in (
        "RETURN COUNT(*) " + tumbling.format(""),
        "RETURN COUNT(*) " + tumbling.format("WHERE A.ts < NEXT(A).ts"),
        "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 us",
    ):
        cepheid.query(text).run(events(list(range(200))))
    assert list(counted.values()) == [2, 4, 4]


def test_an_error_in_a_thread_is_that_of_the_query() -> None:
    limited = cepheid.limits(rows=10)
    with limited, pytest.raises(DataError, match="E518"):
        cepheid.query(QUERY).run(events(list(range(200))))


def test_threads_share_no_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[LocalTrends] = []
    answer = LocalTrends.answer_owned

    def noted(self: LocalTrends, *arguments: Any) -> pa.Table:
        seen.append(self)
        return answer(self, *arguments)

    monkeypatch.setattr(LocalTrends, "answer_owned", noted)
    cepheid.query(QUERY).run(events(list(range(100))))
    assert len({id(one.job) for one in seen}) == len(seen) > 2


def test_ctrl_c_waits_for_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(self: LocalTrends, *_: Any) -> None:
        begun.set()
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    def press() -> None:
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LocalTrends, "answer_owned", endless)
    # A shell lets what it starts in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        cepheid.query(QUERY).run(events(list(range(100))))
    signal.signal(signal.SIGINT, before)
    assert ended.wait(10)


def test_ctrl_c_while_a_thread_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, start = threading.Event(), threading.Thread.start

    def endless(self: LocalTrends, *_: Any) -> None:
        try:
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    def interrupted(self: threading.Thread) -> None:
        start(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalTrends, "answer_owned", endless)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cepheid.query(QUERY).run(events(list(range(100))))
    time.sleep(0.05)
    alive = [one for one in threading.enumerate() if "_run" in repr(getattr(one, "_target", ""))]
    assert ended.wait(10) or not alive
