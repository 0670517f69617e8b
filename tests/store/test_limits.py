"""What a store refuses, and how: times at the ends of 64 bits, folders and names that do not do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import cepheid
from cepheid.events.temporal import TIME_MAX
from cepheid.framing import digest_of, frame
from cepheid.store.event_store import EventStore
from cepheid.store.manifest import FORMAT, NAME, Manifest, load_manifest, path_of
from cepheid.store.newest import Newest, pack_newest

LATEST = TIME_MAX
ENDS = (-LATEST, -LATEST + 1, -1, 0, 1, LATEST - 1, LATEST)


def code_of(work: Any) -> str:
    with pytest.raises(cepheid.CepheidError) as caught:
        work()
    assert caught.value.diagnostics[0].helps
    return caught.value.diagnostics[0].code


# ---------------------------------------------------------------------------------------
# Times


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63), LATEST + 1, -LATEST - 1])
def test_a_time_at_the_ends_of_64_bits_is_refused_when_it_comes(tmp_path: Path, time: int) -> None:
    store = EventStore(tmp_path / "store")
    store.append(pa.table({"ts": [1]}))
    assert code_of(lambda: store.append(pa.table({"ts": pa.array([1, time])}))) == "E517"
    assert (len(store), len(store.scan().read_all())) == (1, 1)
    folder = tmp_path / "others"
    folder.mkdir()
    parquet.write_table(pa.table({"ts": sorted([1, time])}), folder / "a.parquet")
    assert code_of(lambda: EventStore.open_directory(folder)) == "E517"


@pytest.mark.parametrize(
    ("kind", "plain", "value"),
    [
        (pa.timestamp("s"), pa.int64(), 2**62),
        (pa.timestamp("ms"), pa.int64(), -(2**60)),
        (pa.uint64(), pa.uint64(), 2**63 + 5),
        (pa.date32(), pa.int32(), 2**31 - 1),
        (pa.date64(), pa.int64(), 86_400_000 * 2**35),
    ],
)
def test_a_time_that_leaves_64_bits_in_microseconds_is_refused(
    tmp_path: Path, kind: pa.DataType, plain: pa.DataType, value: int
) -> None:
    far: Any = pa.array([value], plain).cast(kind)
    assert code_of(lambda: EventStore(tmp_path).append(pa.table({"ts": far}))) == "E517"
    if kind != pa.uint64():  # Blocks would say that it is not there.
        events = pa.table({"ts": [1], "at": far})
        assert code_of(lambda: EventStore(tmp_path).append(events)) == "E517"


@given(st.lists(st.sampled_from(ENDS), min_size=1, max_size=9), st.integers(1, 3))
def test_events_at_the_first_and_last_times_are_all_there(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], size: int
) -> None:
    store = EventStore(tmp_path_factory.mktemp("store"))
    for at in range(0, len(times), size):
        part = times[at : at + size]
        store.append(pa.table({"ts": pa.array(part, pa.int64()), "x": [1] * len(part)}))
    assert len(store) == len(times)
    assert store.scan().read_all()["ts"].to_pylist() == sorted(times)
    for begin in ENDS:
        for end in (*ENDS, LATEST + 1):
            found = store.scan(start=begin, end=end).read_all()["ts"].to_pylist()
            assert found == [t for t in sorted(times) if begin <= t < end]
    for method in ("index", "replay"):
        counts = store.aggregate({"n": "COUNT(*)"}, within=2**60, method=method)
        assert sum(counts["n"].to_numpy()) == len(times)
    query = cepheid.query("RETURN COUNT(*) PATTERN A WHERE A.x = 1 WITHIN 9 us SLIDE 9 us")
    expected = query.run(store.scan().read_all())
    assert query.run(store, strategy="index").to_pylist() == expected.to_pylist()
    assert store.verify().sound


def test_a_window_that_would_leave_64_bits_is_refused(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(pa.table({"ts": [1]}))
    with pytest.raises(ValueError, match="at most 2"):
        store.aggregate(["COUNT(*)"], within=2**60 + 1)


# ---------------------------------------------------------------------------------------
# Folders and names


def test_an_index_has_a_column_with_a_name_of_any_length(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    names = ["x" * 300, "x" * 299 + "y", "é" * 100, "a/" * 90]
    columns: dict[str, Any] = {"ts": [1, 2], **{name: [n, 7] for n, name in enumerate(names)}}
    store.append(pa.table(columns))
    for name in names:
        store.index(name)
    store.index(*names)
    snapshot = EventStore(tmp_path).snapshot()
    (segment,) = snapshot.manifest.segments
    assert len({file.name for file in segment.indexes.values()}) == 5
    for number, name in enumerate(names):
        index = snapshot.secondary(segment, name)
        assert index is not None
        assert snapshot.look_up(segment, name, index.find("=", number)).rows.tolist() == [0]
    assert store.verify().sound


@pytest.mark.parametrize("place", ["file", "file/below", "n" * 300, "nul\0"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("no folder")
    events = pa.table({"ts": [1]})
    assert code_of(lambda: EventStore(tmp_path / place).append(events)) == "E549"
    assert code_of(lambda: EventStore(tmp_path / place).scan()) in {"E544", "E549"}


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("mkdir", "E557"),
        ("write_bytes", "E557"),
        ("open", "E549"),  # It reads before it writes.
        ("hardlink_to", "E557"),
        ("replace", "E557"),
        ("iterdir", "E549"),
        ("read_bytes", "E549"),
    ],
)
def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: str
) -> None:
    # Who runs the tests may be allowed everything.
    if call != "mkdir":
        EventStore(tmp_path / "store").append(pa.table({"ts": [1]}))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, call, refuse)
    work = lambda: EventStore(tmp_path / "store").append(pa.table({"ts": [2]}))  # noqa: E731  # shorter
    assert code_of(work) == code


def test_many_writers_lose_no_event_without_saying_so(tmp_path: Path) -> None:
    def write(writer: int) -> int:
        stored = 0
        for n in range(8):
            try:
                event = pa.table({"ts": [8 * writer + n], "k": ["a"]})
                stored += EventStore(tmp_path).append(event)
                if n == writer:
                    EventStore(tmp_path).index("k")
                    EventStore(tmp_path).compact()
            except cepheid.DataError as error:
                if error.diagnostics[0].code != "E541":
                    raise
        return stored

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(write, range(4)))
    store = EventStore(tmp_path)
    assert store.verify().sound
    # One that was told of other writers may have stored its event before, never the other way.
    assert len(store.scan().read_all()) == len(store) >= sum(counts)


# ---------------------------------------------------------------------------------------
# Names in a manifest


def rewrite(folder: Path, change: Any) -> None:
    """Write the manifest anew, as somebody does who knows the format."""
    manifest = load_manifest(folder, 1)
    data = frame(NAME, FORMAT, msgspec.json.encode(change(manifest)))
    path_of(folder, 1).write_bytes(data)
    (folder / "newest").write_bytes(pack_newest(Newest(1, digest_of(data))))


@pytest.mark.parametrize("part", ["data", "blocks"])
@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../other/segments/a.parquet", "segments/../../a", "", ".", "a\0b"]
)
def test_a_manifest_that_names_a_file_outside_is_refused(
    tmp_path: Path, name: str, part: str
) -> None:
    EventStore(tmp_path).append(pa.table({"ts": [1]}))

    def change(manifest: Manifest) -> Manifest:
        (segment,) = manifest.segments
        file = msgspec.structs.replace(getattr(segment, part), name=name)
        segment = msgspec.structs.replace(segment, **{part: file})
        return msgspec.structs.replace(manifest, segments=(segment,))

    rewrite(tmp_path, change)
    assert code_of(lambda: EventStore(tmp_path)) == "E547"


def test_a_manifest_with_an_absolute_folder_of_others_is_refused(tmp_path: Path) -> None:
    EventStore(tmp_path).append(pa.table({"ts": [1]}))
    rewrite(tmp_path, lambda manifest: msgspec.structs.replace(manifest, folder="/etc"))
    assert code_of(lambda: EventStore(tmp_path)) == "E547"


@pytest.mark.parametrize("kind", ["segments/*", "index/*", "segments", "index"])
def test_a_link_that_leads_out_of_a_store_is_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "store"
    EventStore(folder).append(pa.table({"ts": [1]}))
    (path,) = folder.glob(kind)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: EventStore(folder).scan().read_all()) == "E547"


def test_a_store_below_a_link_is_read(tmp_path: Path) -> None:
    EventStore(tmp_path / "store").append(pa.table({"ts": [1]}))
    (tmp_path / "link").symlink_to(tmp_path / "store")
    assert len(EventStore(tmp_path / "link").scan().read_all()) == 1


# ---------------------------------------------------------------------------------------
# Files of others, and stores of before


def test_a_changed_bit_of_a_file_of_others_is_no_wrong_answer(tmp_path: Path) -> None:
    for name, begin in (("a", 0), ("b", 50)):
        columns: dict[str, Any] = {"ts": list(range(begin, begin + 50)), "x.y": ["p"] * 50}
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    index = tmp_path / "_cepheid"
    sound = EventStore.open_directory(tmp_path).scan().read_all().to_pylist()
    path = tmp_path / "b.parquet"
    data = path.read_bytes()
    for bit in range(0, 8 * len(data), 61):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert code_of(lambda: EventStore(index).scan().read_all()) == "E542"
        assert not EventStore(index).verify().sound
    path.write_bytes(data)
    assert EventStore(index).scan().read_all().to_pylist() == sound
    # The same length, and other events.
    (tmp_path / "a.parquet").rename(tmp_path / "c")
    path.rename(tmp_path / "a.parquet")
    (tmp_path / "c").rename(path)
    assert code_of(lambda: EventStore(index).scan().read_all()) == "E542"


def test_a_store_of_the_format_before_is_refused_and_its_events_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    events = pa.table({"ts": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    EventStore(folder).append(events)
    body = b'{"version":1,"time":"ts","columns":"","format":2}'
    (folder / "manifest-0000000001.json").write_bytes(f"{crc32(body):08x}\n".encode() + body)
    with pytest.raises(cepheid.DataError, match=r"E544.*version 2[^$]*open_directory"):
        EventStore(folder)
    opened = EventStore.open_directory(folder / "segments", index_at=tmp_path / "new")
    assert opened.scan().read_all().equals(events)


def test_a_manifest_under_the_number_of_another_is_refused(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    for n in range(2):
        store.append(pa.table({"ts": [n]}))
    path_of(tmp_path, 2).write_bytes(path_of(tmp_path, 1).read_bytes())
    with pytest.raises(cepheid.DataError, match="E542"):
        EventStore(tmp_path)
