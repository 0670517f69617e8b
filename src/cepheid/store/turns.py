"""Writers of a store take turns, in the order in which they ask.

A writer has a file in ``writers/`` from its first write to its commit, and refreshes it every two
seconds. To commit, it takes a ticket: a number above all others in the folder, which it adds to the
name of its file. It waits until no ticket is lower. A writer is gone if its process on this machine
is gone, or if its file was not refreshed for ten seconds. The file system sets the times of these
files, so the clocks of two machines need not agree.

Turns are for fairness only. That a version is committed once rests on the link of its manifest.
"""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from cepheid.decoding import from_json
from cepheid.errors import DataError, Diagnostic
from cepheid.store.file_system import Data, Files, told

FOLDER = "writers"
BEAT_S = 2.0
LEASE_S = 10.0
"""A writer that did not refresh its file for so long is gone."""
WAIT_S = 600.0
"""The longest wait for a turn."""
_PAUSE_S = 0.001, 0.02
_LOOK_S = 0.1
"""The interval at which a waiting writer checks whether those before it are gone."""
_NAME = re.compile(r"([0-9a-f]{12})(?:\.(\d{20}))?")


class Owner(msgspec.Struct, frozen=True):
    """The process of a writer; ``began`` tells it from a later process with its number."""

    host: str
    pid: int
    began: str


class Present(NamedTuple):
    """A file in the folder of writers: its ticket is None before it is asked for."""

    path: Path
    key: str
    ticket: int | None


def list_writers(folder: Path) -> list[Present]:
    """List the files of writers, also of those that are gone."""
    with told(folder):
        try:
            names = [path.name for path in (folder / FOLDER).iterdir()]
        except FileNotFoundError:
            return []
    found = [(name, _NAME.fullmatch(name)) for name in names]
    return [
        Present(folder / FOLDER / name, match[1], int(match[2]) if match[2] else None)
        for name, match in found
        if match
    ]


@cache
def host() -> str:
    """Name this machine, since it was started, and the name space of its processes."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def _began(pid: int) -> str:
    """Read when a process began; empty where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _runs(owner: Owner) -> bool:
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # It belongs to another user.
    return owner.began == _began(owner.pid)


def owner_of(path: Path) -> Owner | None:
    """Read the owner of a file; None if it is not whole, as one that is being made."""
    try:
        return from_json(path.read_bytes(), Owner)
    except (OSError, msgspec.MsgspecError):
        return None


def is_gone(present: Present, now: float) -> bool:
    """Check whether a writer is gone, by the clock of the file system."""
    owner = owner_of(present.path)
    if owner is not None and owner.host == host() and not _runs(owner):
        return True
    try:
        return now - present.path.stat().st_mtime > LEASE_S
    except FileNotFoundError:
        return True


class Writer:
    """One change of a store: the files that it wrote, its presence and its turn.

    Attributes
    ----------
    key
        What the names of its files contain, so that nobody removes them while it is alive.
    """

    def __init__(self, files: Files, folder: Path) -> None:
        self.key = uuid.uuid4().hex[:12]
        self.folder = folder
        self.written: list[Path] = []
        self._files = files
        self._path = folder / FOLDER / self.key
        self._owner = b""
        self._ticket: int | None = None
        self._beating: Thread | None = None
        self._over = Event()
        self._renaming = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._beating is not None:
            self._beating.join()
            with suppress(DataError):  # It is gone soon anyway.
                self._files.remove(self._path)

    def enter(self) -> None:
        """Make the file that tells others of this writer, before its first write."""
        if self._beating is not None:
            return
        self._files.make_folder(self._path.parent)
        owner = Owner(host(), os.getpid(), _began(os.getpid()))
        self._owner = msgspec.json.encode(owner)
        self._mark()
        self._beating = Thread(target=self._beat, daemon=True)
        self._beating.start()

    def _mark(self) -> None:
        with self._renaming:
            self._files.mark(self._path, self._owner)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            # Without a beat the others go first; the link of the manifest keeps order.
            with suppress(DataError):
                self._mark()

    def write(self, path: Path, data: Data) -> None:
        """Write a new file of this change."""
        self.enter()
        self._files.write(path, data)
        self.written.append(path)

    def discard(self, needed: set[str]) -> None:
        """Remove the files that this change wrote and does not need."""
        for path in self.written:
            if path.relative_to(self.folder).as_posix() not in needed:
                with suppress(DataError):  # `clean` removes it later.
                    self._files.remove(path)

    def now(self) -> float:
        """Read the clock of the file system, which may be of another machine."""
        self.enter()
        self._mark()
        with told(self._path):
            return self._path.stat().st_mtime

    def wait_for_turn(self) -> None:
        """Wait until all writers that asked before are done or gone.

        Raises
        ------
        DataError
            E541 if a living writer keeps its turn too long.
        """
        self.enter()
        own = self._take_ticket()
        begin, pause, looked = time.monotonic(), _PAUSE_S[0], 0.0
        while ahead := self._ahead(own):
            waited = time.monotonic() - begin
            if waited > WAIT_S:
                raise _waited(self.folder, ahead[0])
            if waited - looked > _LOOK_S:
                looked = waited
                self._remove_gone(ahead)
            time.sleep(pause)
            pause = min(1.5 * pause, _PAUSE_S[1])

    def _take_ticket(self) -> int:
        self._mark()  # Somebody who took this writer for dead may have removed its file.
        if self._ticket is None:
            tickets = [other.ticket or 0 for other in list_writers(self.folder)]
            # Tickets grow although clocks differ.
            self._ticket = max([time.time_ns() // 1_000, *(ticket + 1 for ticket in tickets)])
            path = self._path.with_name(f"{self.key}.{self._ticket:020}")
            with self._renaming:
                self._files.replace(self._path, path)
                self._path = path
        return self._ticket

    def _ahead(self, own: int) -> list[Present]:
        """List the writers with lower tickets."""
        return [
            other
            for other in list_writers(self.folder)
            if other.ticket is not None and (other.ticket, other.key) < (own, self.key)
        ]

    def _remove_gone(self, others: list[Present]) -> None:
        now = self.now()
        for other in others:
            if is_gone(other, now):
                self._files.remove(other.path)


def _waited(folder: Path, other: Present) -> DataError:
    owner = owner_of(other.path)
    who = "" if owner is None else f", process {owner.pid} on `{owner.host.split()[0]}`,"
    message = f"another writer of `{folder}`{who} keeps its turn for more than {WAIT_S:.0f} s"
    helps = (f"wait for it, or end it and remove `{other.path}`",)
    return DataError([Diagnostic("E541", message, helps=helps)])
