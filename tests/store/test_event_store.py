"""A store gives back what was appended, in the order of time, whatever happens to its files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.store.small_store import small_parts

import cepheid
from cepheid.store import event_store
from cepheid.store.event_store import EventStore
from cepheid.store.file_system import LocalFiles
from cepheid.store.snapshot import Interval
from cepheid.store.turns import Writer


def table_of(times: list[int], begin: int = 0) -> pa.Table:
    """Return events with some times, numbered."""
    numbers = range(begin, begin + len(times))
    return pa.table({"ts": pa.array(times, pa.int64()), "n": pa.array(numbers, pa.int64())})


def rows_of(store: EventStore, *bounds: Any) -> list[tuple[int, int]]:
    found = store.scan(*bounds).read_all()
    return [(row["ts"], row["n"]) for row in found.to_pylist()]


def code_of(caught: pytest.ExceptionInfo[cepheid.CepheidError]) -> str:
    return caught.value.diagnostics[0].code


@settings(max_examples=min(settings().max_examples, 80))  # each writes a store
@given(
    appends=st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=5),
    compacted=st.lists(st.booleans(), min_size=5, max_size=5),
    floor=st.none() | st.integers(0, 30),
    bounds=st.tuples(st.none() | st.integers(0, 31), st.none() | st.integers(0, 31)),
)
def test_scan_gives_all_events_in_order_of_time_then_of_arrival(
    appends: list[list[int]],
    compacted: list[bool],
    floor: int | None,
    bounds: tuple[int | None, int | None],
) -> None:
    with small_parts(), tempfile.TemporaryDirectory() as folder:
        store = EventStore(folder)
        expected: list[tuple[int, int]] = []
        store.append(table_of([]))
        for times, compact in zip(appends, compacted, strict=False):
            assert store.append(table_of(times, len(expected))) == len(times)
            expected += list(zip(times, range(len(expected), 1000), strict=False))
            if compact:
                store.compact()
        if floor is not None:
            store.drop_before(floor)
        begin, end = bounds
        wanted = sorted(
            (
                row
                for row in expected
                if (begin is None or row[0] >= begin)
                and (end is None or row[0] < end)
                and (floor is None or row[0] >= floor)
            ),
            key=lambda row: row[0],
        )
        assert rows_of(EventStore(folder), begin, end) == wanted
        store.compact()
        assert rows_of(store, begin, end) == wanted
        assert 0 in [store.compact() for _ in range(4)]
        assert store.verify().sound


def test_late_events_go_to_a_side_segment_until_it_is_merged(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(table_of([10, 20, 30]))
    store.append(table_of([15, 40]))
    sides = [segment.side for segment in store.snapshot().manifest.segments]
    assert sides == [False, True, False]
    assert store.compact() == 3
    assert [segment.side for segment in store.snapshot().manifest.segments] == [False]
    assert [time for time, _ in rows_of(store)] == [10, 15, 20, 30, 40]


@pytest.mark.parametrize(
    "events",
    [
        table_of([1, 2]).to_batches()[0],
        table_of([1, 2]).to_batches(),
        table_of([1, 2]).to_reader(),
        pd.DataFrame({"ts": [1, 2], "n": [0, 1]}),
    ],
    ids=["batch", "batches", "reader", "pandas"],
)
def test_all_forms_of_events_can_be_appended(tmp_path: Path, events: object) -> None:
    store = EventStore(tmp_path)
    assert store.append(events) == 2
    assert rows_of(store) == [(1, 0), (2, 1)]
    with pytest.raises(TypeError, match="events are a pyarrow Table"):
        store.append("events.parquet")


def test_new_columns_are_null_for_older_events(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(table_of([1]))
    store.append(pa.table({"ts": [2], "zone": ["a"]}))
    store.append(pa.table({"ts": [3], "n": pa.array([7], pa.int8())}))
    found = store.scan().read_all().to_pydict()
    assert found == {"ts": [1, 2, 3], "n": [0, None, 7], "zone": [None, "a", None]}
    store.compact()
    assert store.scan().read_all().to_pydict() == found


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(table_of([1]))
    with pytest.raises(cepheid.DataError) as caught:
        store.append(pa.table({"ts": [2], "n": ["many"]}))
    assert code_of(caught) == "E543"
    assert "`n` is of type string, and of type int64 in the store" in str(caught.value)
    with pytest.raises(cepheid.DataError) as caught:
        store.append(pa.table([pa.array([2])] * 2, names=["ts", "ts"]))
    assert code_of(caught) == "E516"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("s"), [1, 2]),
        (pa.timestamp("ms", "UTC"), [1, 2]),
        (pa.timestamp("ns"), [1_000, 2_000]),
        (pa.date32(), [1, 2]),
        (pa.date64(), [86_400_000, 172_800_000]),
        (pa.int32(), [1, 2]),
    ],
    ids=str,
)
def test_every_kind_of_time_is_kept(tmp_path: Path, kind: pa.DataType, values: list[int]) -> None:
    table = pa.table({"ts": pa.array(values[::-1], kind), "n": [1, 2]})
    store = EventStore(tmp_path)
    store.append(table)
    assert store.scan().read_all() == table.sort_by("ts")
    later = table["ts"][0].as_py()
    assert store.scan(start=later).read_all()["n"].to_pylist() == [1]


def test_unfit_times_are_refused(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    for table, code in (
        (pa.table({"n": [1]}), "E505"),
        (pa.table({"ts": ["a"]}), "E580"),
        (pa.table({"ts": [True]}), "E506"),
        (pa.table({"ts": pa.array([None], pa.int64())}), "E506"),
    ):
        with pytest.raises(cepheid.DataError) as caught:
            store.append(table)
        assert code_of(caught) == code
    assert store.version == 0


def test_a_store_without_events_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(cepheid.DataError) as caught:
        EventStore(tmp_path / "none").scan()
    assert code_of(caught) == "E544"


def test_a_store_remembers_its_time_column(tmp_path: Path) -> None:
    EventStore(tmp_path, time="at").append(pa.table({"at": [1]}))
    assert EventStore(tmp_path).time == "at"
    with pytest.raises(cepheid.DataError) as caught:
        EventStore(tmp_path, time="ts")
    assert code_of(caught) == "E544"
    assert repr(EventStore(tmp_path)).endswith("time='at')")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(table_of([1]))
    for read in (lambda: store.scan(columns=["m"]), lambda: store.index("m")):
        with pytest.raises(cepheid.DataError) as caught:
            read()
        assert code_of(caught) == "E505"
    assert store.scan(columns=["n"]).read_all().column_names == ["n"]


def test_a_batch_that_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    for batch in (0, 1, 1, 0, 2):
        store.append(table_of([batch], batch), source="sink", batch=batch)
    assert store.append(table_of([9], 9), source="other", batch=0) == 1
    assert rows_of(store) == [(0, 0), (1, 1), (2, 2), (9, 9)]


def test_events_older_than_retention_are_not_stored(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(table_of([1, 5, 9]))
    store.drop_before(4)
    store.drop_before(2)
    assert store.append(table_of([3, 4], 3)) == 1
    assert rows_of(store) == [(4, 4), (5, 1), (9, 2)]
    assert len(store) == 3
    assert store.compact()
    assert len(store) == 3


class ImpatientWriter(Writer):
    """Takes no turns, as writers of older versions."""

    def wait_for_turn(self) -> None:
        pass


class ImpatientStore(EventStore):
    def writing(self) -> Writer:
        return ImpatientWriter(LocalFiles(), self.path)


class OtherWriter(LocalFiles):
    """Lets another writer commit first, some times."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        self.times = times

    def publish(self, source: Path, target: Path) -> bool:
        if self.times and target.name != "newest":
            self.times -= 1
            ImpatientStore(self.folder).append(table_of([100 + self.times], 100 + self.times))
        return super().publish(source, target)


def test_of_two_writers_the_second_takes_over_what_the_first_has_done(tmp_path: Path) -> None:
    store = EventStore(tmp_path, files=OtherWriter(tmp_path, 3))
    store.append(table_of([1, 2]))
    assert rows_of(store) == [(1, 0), (2, 1), (100, 100), (101, 101), (102, 102)]
    assert store.version == 4
    store.compact()
    busy = EventStore(tmp_path, files=OtherWriter(tmp_path, 2))
    busy.index("n")
    busy = EventStore(tmp_path, files=OtherWriter(tmp_path, 2))
    assert busy.compact() > 0
    assert len(busy) == 9
    assert busy.verify().sound


def test_a_writer_that_always_comes_second_says_so(tmp_path: Path) -> None:
    store = EventStore(tmp_path, files=OtherWriter(tmp_path, event_store.TRIES))
    with pytest.raises(cepheid.DataError) as caught:
        store.append(table_of([1]))
    assert code_of(caught) == "E541"
    assert len(store) == event_store.TRIES


def test_directories_of_others_are_indexed_in_place(tmp_path: Path) -> None:
    for part, times in enumerate(([1, 2, 3, 4, 5], [6, 7], [8])):
        table = table_of(times, 10 * part)
        parquet.write_table(table, tmp_path / f"{part}.parquet", row_group_size=2)
    store = EventStore.open_directory(tmp_path)
    assert [time for time, _ in rows_of(store)] == list(range(1, 9))
    assert [time for time, _ in rows_of(store, 3, 7)] == [3, 4, 5, 6]
    store.index("n")
    with pytest.raises(cepheid.DataError) as caught:
        store.append(table_of([9]))
    assert code_of(caught) == "E545"
    assert EventStore.open_directory(tmp_path).version == store.version
    extended = table_of([0]).append_column("m", pa.array([1]))
    parquet.write_table(extended, tmp_path / "9.parquet")
    (tmp_path / "1.parquet").unlink()
    beside = EventStore.open_directory(tmp_path)
    assert [time for time, _ in rows_of(beside)] == [0, 1, 2, 3, 4, 5, 8]
    assert all(segment.indexes for segment in beside.snapshot().manifest.segments)
    assert beside.schema.names == ["ts", "n", "m"]
    apart = EventStore.open_directory(tmp_path, index_at=tmp_path.parent / "apart")
    assert rows_of(apart) == rows_of(beside)


def test_directories_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(cepheid.DataError) as caught:
        EventStore.open_directory(tmp_path)
    assert code_of(caught) == "E501"
    parquet.write_table(table_of([2, 1]), tmp_path / "a.parquet")
    with pytest.raises(cepheid.DataError) as caught:
        EventStore.open_directory(tmp_path)
    assert code_of(caught) == "E509"
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(cepheid.DataError) as caught:
        EventStore.open_directory(tmp_path)
    assert code_of(caught) == "E501"


def test_queries_run_over_a_store(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    times, types = rng.integers(0, 400, 300).tolist(), rng.choice(["A", "B"], 300).tolist()
    table = pa.table({"ts": times, "type": types})
    store = EventStore(tmp_path)
    for at in range(0, 300, 70):
        store.append(table.slice(at, 70))
    query = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A+, B) WITHIN 20 us SLIDE 10 us")
    ordered = table.take(np.argsort(table["ts"].to_numpy(), kind="stable"))
    assert query.run(store) == query.run(ordered)


def test_files_of_a_version_that_was_replaced_just_now_stay_for_its_readers(
    tmp_path: Path,
) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": [1, 5], "x": [1, 5]}))
    store.append(pa.table({"ts": [3, 7], "x": [3, 7]}))
    for path in tmp_path.rglob("*"):
        os.utime(path, (1000, 1000))
    reader = store.snapshot()
    assert store.compact()
    store.clean()
    assert sum(map(len, reader.scan(Interval(), ["ts", "x"]))) == 4
    assert store.clean(older_than_s=-1)
    assert store.scan().read_all().num_rows == 4


def test_segments_of_others_must_have_the_types_of_the_store(tmp_path: Path) -> None:
    store, other = EventStore(tmp_path / "a"), EventStore(tmp_path / "b")
    other.append(pa.table({"ts": [1], "x": ["text"]}))
    with store.writing() as writer:
        terms = store.terms(writer)
        store.append(pa.table({"ts": [1], "x": [1]}))
        segments = other.snapshot().manifest.segments
        with pytest.raises(cepheid.DataError, match="E543"):
            store.add_segments(segments, other.schema, terms, writer)


def test_a_directory_whose_files_do_not_fit_or_that_moved(tmp_path: Path) -> None:
    folder, index = tmp_path / "files", tmp_path / "index"
    folder.mkdir()
    parquet.write_table(pa.table({"ts": [1], "x": [1]}), folder / "a.parquet")
    EventStore.open_directory(folder, index_at=index)
    folder.rename(tmp_path / "moved")
    store = EventStore.open_directory(tmp_path / "moved", index_at=index)
    assert store.scan().read_all().num_rows == 1
    parquet.write_table(pa.table({"ts": [1], "x": ["one"]}), tmp_path / "moved" / "b.parquet")
    with pytest.raises(cepheid.DataError, match="E543"):
        EventStore.open_directory(tmp_path / "moved", index_at=index)
