"""A crash in any step leaves a store with its old or its new events; damage does not go unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.amount import share
from tests.store.small_store import small_parts

import cepheid
from cepheid.store.event_store import EventStore
from cepheid.store.file_system import Data, LocalFiles
from cepheid.store.turns import Owner, host


class CrashError(Exception):
    """The machine stops."""


class CrashingFiles(LocalFiles):
    """Stops at one call: before it, in the midst of a write, or after it."""

    def __init__(self, call: int, moment: str) -> None:
        self.left = call
        self.moment = moment
        self.stopped = False

    def _step(self, work: Callable[[], object], half: Callable[[], object] | None = None) -> object:
        if self.stopped:  # Nothing runs after a crash, also no clearing up.
            raise CrashError
        self.left -= 1
        if self.left >= 0:
            return work()
        self.stopped = True
        if self.moment == "after":
            work()
        elif self.moment == "within" and half is not None:
            half()
        raise CrashError

    def make_folder(self, path: Path) -> None:
        self._step(lambda: LocalFiles.make_folder(self, path))

    def write(self, path: Path, data: Data) -> None:
        part = bytes(data)[: len(data) // 2]
        self._step(lambda: LocalFiles.write(self, path, data), lambda: path.write_bytes(part))

    def publish(self, source: Path, target: Path) -> bool:
        return bool(self._step(lambda: LocalFiles.publish(self, source, target)))

    def replace(self, source: Path, target: Path) -> None:
        self._step(lambda: LocalFiles.replace(self, source, target))

    def remove(self, path: Path) -> None:
        self._step(lambda: LocalFiles.remove(self, path))

    def mark(self, path: Path, data: bytes) -> None:
        # The process that crashes is another one than that of the test.
        dead = msgspec.json.encode(Owner(host(), 2**30, ""))
        self._step(lambda: LocalFiles.mark(self, path, dead))

    def sync_folder(self, path: Path) -> None:
        self._step(lambda: LocalFiles.sync_folder(self, path))


def events(times: list[int]) -> pa.Table:
    return pa.table({"ts": times, "n": [f"e{t}" for t in times], "price": [0.5 * t for t in times]})


OPERATIONS: dict[str, Callable[[EventStore], object]] = {
    "append": lambda store: store.append(events([5, 60, 61]), source="a", batch=7),
    "compact": lambda store: store.compact(),
    "index": lambda store: store.index("price"),
    "drop": lambda store: store.drop_before(15),
    "clean": lambda store: store.clean(older_than_s=0),
}


def times_of(store: EventStore) -> list[int]:
    return [int(t) for t in store.scan().read_all()["ts"].to_numpy()]


@share(4)
@pytest.mark.parametrize("moment", ["before", "within", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_crash_in_any_step_loses_nothing(tmp_path: Path, name: str, moment: str) -> None:
    work = OPERATIONS[name]
    old = [10, 11, 20, 21, 30, 31, 40, 41]
    new = {"append": sorted([*old, 5, 60, 61]), "drop": [t for t in old if t >= 15]}.get(name, old)
    call = 0
    with small_parts():
        while True:
            folder = tmp_path / str(call)
            store = EventStore(folder)
            store.append(events([10, 20, 30, 40]))
            store.index("n")
            store.append(events([11, 21, 31, 41]))
            (folder / "segments/left.parquet").write_bytes(b"left over")
            crashing = EventStore(folder, files=CrashingFiles(call, moment))
            try:
                work(crashing)
            except CrashError:
                pass
            else:
                break
            store = EventStore(folder)
            assert times_of(store) in (old, new)
            assert store.verify().sound
            store.clean(older_than_s=0)
            work(store)
            assert times_of(store) == new
            assert store.verify().sound
            store.clean(older_than_s=0)
            needed = {file.name for file in store.snapshot().manifest.files()}
            found = {p.relative_to(folder).as_posix() for p in folder.glob("*/*")}
            assert found == needed
            call += 1
    assert call >= {"append": 12, "compact": 10, "index": 6, "drop": 3, "clean": 1}[name]


def test_a_crash_while_a_folder_is_indexed_loses_nothing(tmp_path: Path) -> None:
    parquet.write_table(events([1, 2]), tmp_path / "a.parquet")
    call = 0
    while True:
        files = CrashingFiles(call, "within")
        index_at = tmp_path / f"_{call}"
        try:
            EventStore.open_directory(tmp_path, index_at=index_at, files=files)
        except CrashError:
            pass
        else:
            break
        assert times_of(EventStore.open_directory(tmp_path, index_at=index_at)) == [1, 2]
        call += 1
    assert call > 3


@share(2)
@pytest.mark.parametrize("kind", ["segments/*", "index/*.blocks", "index/*.index", "manifest-*"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_damaged_files_are_detected(tmp_path: Path, kind: str, damage: str) -> None:
    EventStore(tmp_path).append(events(list(range(2000))))
    EventStore(tmp_path).index("n")
    path = sorted(tmp_path.glob(kind))[-1]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    if kind != "manifest-*":
        (problem,) = EventStore(tmp_path).verify().problems
        assert path.name in problem
    with pytest.raises(cepheid.DataError) as caught:
        read_everything(tmp_path)
    lost = damage == "gone" and kind == "manifest-*"
    assert caught.value.diagnostics[0].code == ("E548" if lost else "E542")


def test_every_byte_of_blocks_has_a_checksum(tmp_path: Path) -> None:
    with small_parts(segment=64, group=8, block=4):
        EventStore(tmp_path).append(events(list(range(64))))
    (path,) = tmp_path.glob("index/*.blocks")
    sound = path.read_bytes()
    for place in range(0, len(sound), 7):
        data = bytearray(sound)
        data[place] ^= 0x10
        path.write_bytes(data)
        snapshot = EventStore(tmp_path).snapshot()
        (segment,) = snapshot.manifest.segments
        with pytest.raises(cepheid.DataError) as caught:
            snapshot.blocks(segment, attributes=snapshot.tree(segment).attributes)
        assert caught.value.diagnostics[0].code == "E542"


def read_everything(folder: Path) -> None:
    store = EventStore(folder)
    store.scan().read_all()
    snapshot = store.snapshot()
    for segment in snapshot.manifest.segments:
        index = snapshot.secondary(segment, "n")
        assert index is not None
        snapshot.look_up(segment, "n", index.find(">=", ""))
