"""Whenever the power is cut, a store opens and has all that was acknowledged."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from tests.store.power import Call, RecordedFiles, disk_after, write_rest
from tests.store.small_store import small_parts

from cepheid.errors import CepheidError
from cepheid.store import turns
from cepheid.store.event_store import EventStore


class Ack(NamedTuple):
    """After so many calls, a change was acknowledged; the store has these times since."""

    calls: int
    version: int
    times: list[int]


def events(times: list[int]) -> pa.Table:
    return pa.table({"ts": times, "n": [f"e{t}" for t in times]})


def times_of(store: EventStore) -> list[int]:
    return [int(t) for t in store.scan().read_all()["ts"].to_numpy()] if store.version else []


def record(
    root: Path, files: Callable[[list[Call]], RecordedFiles]
) -> tuple[list[Call], list[Ack]]:
    """Let two writers change a store in turns, and record all calls."""
    log: list[Call] = []
    acks = [Ack(0, 0, [])]
    folder = root / "some/where"
    one, two = (EventStore(folder, files=files(log)) for _ in range(2))
    changes: list[Callable[[], Any]] = [
        lambda: one.append(events([10, 20, 30, 40])),
        lambda: two.append(events([11, 50])),
        lambda: one.index("n"),
        lambda: two.append(events([5, 60, 61]), source="s", batch=1),
        lambda: one.compact(),
        lambda: two.clean(older_than_s=-1),
        lambda: two.append(events([70, 71])),
        lambda: one.drop_before(15),
        lambda: one.append(events([72])),
        lambda: two.clean(older_than_s=-1),
        lambda: EventStore.recover(folder, files=files(log)),
        lambda: two.append(events([73])),
    ]
    for change in changes:
        change()
        acks.append(Ack(len(log), one.version, times_of(one)))
    return log, acks


def cut(log: list[Call], acks: list[Ack], root: Path, rest: Path, draw: random.Random) -> str:
    """Cut the power somewhere; return what is wrong with the store."""
    calls = draw.randrange(len(log) + 1)
    write_rest(disk_after(log[:calls], root), rest, draw)
    acked = max(n for n, ack in enumerate(acks) if ack.calls <= calls)
    allowed = acks[acked : acked + 2]
    try:
        store = EventStore(rest / "some/where")
        found, times = store.version, times_of(store)
        if not any((found, times) == (ack.version, ack.times) for ack in allowed):
            return f"after {calls} calls: version {found} with {times}, not {allowed}"
        if found and not store.verify().sound:
            return f"after {calls} calls: {store.verify().problems}"
        store.append(events([99]))
        if times_of(store) != [*times, 99]:
            return f"after {calls} calls: an append gives {times_of(store)}"
    except CepheidError as error:
        return f"after {calls} calls: {error}"
    return ""


@pytest.fixture(autouse=True)
def _no_wait_for_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine that lost its power is not the one that goes on.
    monkeypatch.setattr(turns, "LEASE_S", 0.0)


def cuts(
    tmp_path: Path, count: int, files: Callable[[list[Call]], RecordedFiles] = RecordedFiles
) -> list[str]:
    root = tmp_path / "disk"
    root.mkdir()
    with small_parts():
        log, acks = record(root, files)
        problems = []
        for seed in range(count):
            rest = tmp_path / "rest"
            problems.append(cut(log, acks, root, rest, random.Random(seed)))  # no secret
            shutil.rmtree(rest)
    assert len(log) > 150
    return [problem for problem in problems if problem]


def test_a_cut_of_the_power_loses_nothing_acknowledged(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    assert cuts(tmp_path, pytestconfig.getoption("--cuts")) == []


class NoFileSync(RecordedFiles):
    def sync_file(self, path: Path) -> None:
        pass


class NoFolderSync(RecordedFiles):
    def sync_folder(self, path: Path) -> None:
        pass


class NoSyncOfParents(RecordedFiles):
    def sync_folder(self, path: Path) -> None:
        if path.name not in ("disk", "some"):
            super().sync_folder(path)


class NoSyncOfSegments(RecordedFiles):
    def sync_folder(self, path: Path) -> None:
        if path.name != "segments":
            super().sync_folder(path)


@pytest.mark.parametrize("files", [NoFileSync, NoFolderSync, NoSyncOfParents, NoSyncOfSegments])
def test_the_cuts_find_a_sync_that_is_missing(tmp_path: Path, files: type[RecordedFiles]) -> None:
    assert cuts(tmp_path, 60, files)


def test_fsync_is_called_for_files_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    names = Path("/proc/self/fd")
    monkeypatch.setattr(os, "fsync", lambda f: synced.append(str((names / f"{f}").readlink())))
    EventStore(tmp_path / "store").append(events([1]))
    found = {Path(name).name.partition("-")[0] for name in synced}
    assert {"segments", "index", "store", ".manifest", ".newest"} <= found
    assert any(name.endswith(".parquet") for name in synced)
    assert any(name.endswith(".blocks") for name in synced)
