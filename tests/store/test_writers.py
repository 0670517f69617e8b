"""Writers take turns; the dead are not waited for; what they leave goes, and nothing else."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import cepheid
from cepheid.framing import frame
from cepheid.store import turns
from cepheid.store.event_store import EventStore
from cepheid.store.file_system import Data, LocalFiles
from cepheid.store.manifest import FORMAT, NAME, load_manifest, path_of
from cepheid.store.turns import FOLDER, Owner, Writer, host, list_writers

DEAD = 2**30
"""No process has so large a number."""


def events(*times: int) -> pa.Table:
    return pa.table({"ts": list(times), "n": [f"e{t}" for t in times]})


def times_of(store: EventStore) -> list[int]:
    return [int(t) for t in store.scan().read_all()["ts"].to_numpy()]


def code_of(work: Any) -> str:
    with pytest.raises(cepheid.DataError) as caught:
        work()
    assert caught.value.diagnostics[0].helps
    return caught.value.diagnostics[0].code


def leave_ticket(folder: Path, owner: Owner | None, ticket: int = 1) -> Path:
    """Leave the file of a writer that has a low ticket."""
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    path = folder / FOLDER / f"{'ab' * 6}.{ticket:020}"
    path.write_bytes(b"" if owner is None else msgspec.json.encode(owner))
    return path


# ---------------------------------------------------------------------------------------
# Turns


def test_writers_get_their_turns_in_the_order_of_their_tickets(tmp_path: Path) -> None:
    EventStore(tmp_path).append(events(1))
    order: list[int] = []
    with Writer(LocalFiles(), tmp_path) as first:
        first.wait_for_turn()

        def commit(number: int) -> None:
            with Writer(LocalFiles(), tmp_path) as writer:
                writer.wait_for_turn()
                order.append(number)

        threads = []
        for number in range(4):
            threads.append(threading.Thread(target=commit, args=(number,)))
            threads[-1].start()
            while sum(w.ticket is not None for w in list_writers(tmp_path)) < number + 2:
                time.sleep(0.001)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]
    assert list_writers(tmp_path) == []


def test_a_ticket_is_above_all_others_although_clocks_differ(tmp_path: Path) -> None:
    ahead = time.time_ns() // 1_000 + 3_600_000_000
    path = leave_ticket(tmp_path, Owner("another host", 17, ""), ahead)
    with Writer(LocalFiles(), tmp_path) as writer, ThreadPoolExecutor(1) as pool:
        done = pool.submit(writer.wait_for_turn)
        time.sleep(0.05)
        assert not done.done()
        path.unlink()
        done.result(10)


def test_many_writers_all_commit_and_none_waits_for_ever(tmp_path: Path) -> None:
    def write(number: int) -> int:
        store = EventStore(tmp_path)
        return sum(store.append(events(100 * number + n)) for n in range(6))

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(write, range(6))) == 36
    store = EventStore(tmp_path)
    assert (store.version, len(store)) == (36, 36)


@pytest.mark.parametrize("known", [True, False])
def test_a_writer_that_died_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    monkeypatch.setattr(turns, "LEASE_S", 60.0 if known else 0.2)
    path = leave_ticket(tmp_path, Owner(host() if known else "another host", DEAD, ""))
    assert EventStore(tmp_path).append(events(1)) == 1
    assert not path.exists()


def test_a_process_with_the_number_of_a_dead_one_is_another(tmp_path: Path) -> None:
    path = leave_ticket(tmp_path, Owner(host(), os.getpid(), "long ago"))
    assert EventStore(tmp_path).append(events(1)) == 1
    assert not path.exists()


def test_a_writer_that_keeps_its_turn_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "WAIT_S", 0.2)
    leave_ticket(tmp_path, Owner("another host", 17, ""))
    store = EventStore(tmp_path)
    with pytest.raises(cepheid.DataError, match="process 17 on `another`") as caught:
        store.append(events(1))
    assert caught.value.diagnostics[0].code == "E541"
    assert not list(tmp_path.glob("segments/*")) + list(tmp_path.glob("index/*"))


KILLED = """
import sys, pyarrow as pa
from cepheid.store.event_store import EventStore
from cepheid.store.file_system import LocalFiles
class Slow(LocalFiles):
    def publish(self, source, target):
        print("here", flush=True)
        sys.stdin.read()
EventStore(sys.argv[1], files=Slow()).append(pa.table({"ts": [2], "n": ["e2"]}))
"""


def test_a_writer_that_is_killed_in_its_turn_stops_nobody(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(events(1))
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"here\n"
        assert len(list(tmp_path.glob("segments/*"))) == 2
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert store.append(events(3)) == 1
    assert times_of(store) == [1, 3]
    removed = {path.suffix for path in store.clean(older_than_s=-1)}
    assert {".parquet", ".blocks", ".tmp"} <= removed
    assert (times_of(store), store.verify().sound) == ([1, 3], True)


# ---------------------------------------------------------------------------------------
# Leftovers


class PausedFiles(LocalFiles):
    """Runs something before the file of a manifest is written."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def write(self, path: Path, data: Data) -> None:
        if path.suffix == ".blocks":
            super().write(path, data)
            self.work()
        else:
            super().write(path, data)


def test_the_files_of_a_living_writer_stay_however_old(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(events(1))

    def clean() -> None:
        for path in tmp_path.glob("*/*"):
            if path.parent.name != FOLDER:
                os.utime(path, (1000, 1000))
        assert EventStore(tmp_path).clean(older_than_s=10) == []

    assert EventStore(tmp_path, files=PausedFiles(clean)).append(events(2)) == 1
    assert (times_of(store), store.verify().sound) == ([1, 2], True)


def test_a_writer_that_was_taken_for_dead_adds_no_file_that_is_gone(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(events(1))

    def clean() -> None:
        for path in (tmp_path / FOLDER).glob("*"):
            path.unlink()
        assert len(EventStore(tmp_path).clean(older_than_s=-1)) >= 2

    paused = EventStore(tmp_path, files=PausedFiles(clean))
    assert code_of(lambda: paused.append(events(2))) == "E541"
    assert (times_of(store), store.verify().sound) == ([1], True)


def test_a_file_that_is_about_to_go_is_not_added(tmp_path: Path) -> None:
    class SlowFiles(LocalFiles):
        """Removes nothing: it stands still before."""

        def remove(self, path: Path) -> None:
            pass

    store = EventStore(tmp_path)
    store.append(events(1))

    def clean() -> None:
        for path in (tmp_path / FOLDER).glob("*"):
            path.unlink()
        EventStore(tmp_path, files=SlowFiles()).clean(older_than_s=-1)
        for path in (tmp_path / FOLDER).glob("*"):
            path.unlink()

    paused = EventStore(tmp_path, files=PausedFiles(clean))
    assert code_of(lambda: paused.append(events(2))) == "E541"
    assert times_of(store) == [1]


# ---------------------------------------------------------------------------------------
# A disk that is full, or read-only


class RefusingFiles(LocalFiles):
    """The system refuses one call."""

    def __init__(self, call: int, number: int) -> None:
        self.left, self.number = call, number

    def _step(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(self.number, os.strerror(self.number))

    def create(self, path: Path, data: Data) -> None:
        if self.left == 0:
            path.write_bytes(bytes(data)[:10])
        self._step()
        super().create(path, data)

    def sync_file(self, path: Path) -> None:
        self._step()
        super().sync_file(path)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, "E556"), (errno.EDQUOT, "E556"), (errno.EROFS, "E557")]
)
def test_a_full_or_read_only_disk_loses_nothing_and_leaves_nothing(
    tmp_path: Path, number: int, code: str
) -> None:
    store = EventStore(tmp_path)
    store.append(events(1))
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    calls = 8  # Events, blocks, manifest and pointer: each is written and synced.
    for call in range(calls):
        refusing = EventStore(tmp_path, files=RefusingFiles(call, number))
        assert code_of(lambda refusing=refusing: refusing.append(events(2))) == code
        assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
        assert times_of(EventStore(tmp_path)) == [1]
    EventStore(tmp_path, files=RefusingFiles(calls, number)).append(events(2))
    assert times_of(store) == [1, 2]


# ---------------------------------------------------------------------------------------
# The pointer


def test_a_lost_manifest_is_noticed_and_there_is_a_way_out(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    for time_ in (1, 2, 3):
        store.append(events(time_))
    (tmp_path / "manifest-0000000003.json").unlink()
    assert code_of(lambda: EventStore(tmp_path)) == "E548"
    assert code_of(lambda: store.append(events(4))) == "E548"
    found = EventStore.recover(tmp_path)
    assert (found.version, found.source, found.lost) == (4, 2, (3,))
    assert len(found.spare) == 1
    opened = EventStore(tmp_path)
    assert (times_of(opened), opened.version) == ([1, 2], 4)
    assert times_of(EventStore.open_directory(tmp_path / "segments", index_at=tmp_path / "x")) == [
        1, 2, 3,
    ]  # fmt: skip
    assert times_of(store) == [1, 2]


def test_a_pointer_that_is_lost_or_behind_or_damaged(tmp_path: Path) -> None:
    store = EventStore(tmp_path)
    store.append(events(1))
    behind = (tmp_path / "newest").read_bytes()
    store.append(events(2))
    (tmp_path / "newest").write_bytes(behind)  # As after a crash.
    assert times_of(EventStore(tmp_path)) == [1, 2]
    for content in (b"", b"x" * 200, behind[:-1]):
        (tmp_path / "newest").write_bytes(content)
        assert code_of(lambda: EventStore(tmp_path)) == "E542"
    (tmp_path / "newest").unlink()
    assert code_of(lambda: EventStore(tmp_path)) == "E548"
    assert EventStore.recover(tmp_path).version == 3
    assert times_of(EventStore(tmp_path)) == [1, 2]
    (tmp_path / "newest").write_bytes(b"")
    assert EventStore.recover(tmp_path).version == 4
    for path in tmp_path.glob("manifest-*"):
        path.unlink()
    assert code_of(lambda: EventStore(tmp_path)) == "E548"
    assert code_of(lambda: EventStore.recover(tmp_path)) == "E544"


def test_a_store_of_an_older_cepheid_has_no_pointer_and_gets_one(tmp_path: Path) -> None:
    EventStore(tmp_path).append(events(1))
    old = msgspec.to_builtins(load_manifest(tmp_path, 1))
    del old["pointed"], old["condemned"]
    path_of(tmp_path, 1).write_bytes(frame(NAME, FORMAT, msgspec.json.encode(old)))
    (tmp_path / "newest").unlink()
    store = EventStore(tmp_path)
    assert times_of(store) == [1]
    store.append(events(2))
    assert (tmp_path / "newest").exists()
    (tmp_path / "manifest-0000000002.json").unlink()
    assert code_of(lambda: EventStore(tmp_path)) == "E548"
