"""Followers that processes of this machine keep: a batch of changes in, its rows out.

Spark gives the tasks of a bucket to any of its workers, and a follower is in the worker that read
its state, its *home*. Whoever has a task and not the follower asks the home, which takes the
changes in a thread of its own. A state names its home; if that is gone, or has gone on to another
state, whoever asks reads the state and is the home from then on. So no answer depends on homes.

Homes are sockets of Linux without a file: they vanish with their process. Only processes of one
user talk to each other. Elsewhere nobody has a home, and states are read instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import struct
import sys
import threading
from collections import OrderedDict
from typing import NamedTuple

import msgspec
import pyarrow as pa

from cepheid.decoding import from_msgpack
from cepheid.framing import digest_of
from cepheid.jobs.changes.follow import Follower
from cepheid.jobs.changes.ledger import Counts
from cepheid.jobs.changes.parts import write_part
from cepheid.jobs.tables import table_from_bytes, table_to_bytes

KEPT_EVENTS = 1 << 22
"""So many events, in all followers together, a process keeps."""

CONNECT_S, ANSWER_S = 1.0, 120.0
"""A home that does not answer in this time is taken to be gone."""

MESSAGE_MAX = 1 << 31
_LENGTH = struct.Struct("<Q")
_CREDENTIALS = struct.Struct("3i")
_NAME = re.compile(r"[0-9a-f]{32}")

Key = tuple[str, ...]


class Turn(NamedTuple):
    """A batch of changes and the watermark after it.

    ``after`` identifies what the follower has taken then; ``whole`` asks for its bytes, which
    identify it instead.
    """

    changes: pa.Table
    until: int
    after: str
    whole: bool


class Told(NamedTuple):
    """The outcome of a turn: rows, odd changes, the events that there are, and perhaps bytes.

    ``after`` identifies what the follower has taken.
    """

    rows: pa.Table
    counts: Counts
    events: int
    base: bytes
    after: str


class Shelf:
    """The followers that a process keeps, by their queries and all that they have taken."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, Follower] = OrderedDict()
        self._one_by_one = threading.Lock()
        self._home: Home | None = None

    def take(self, key: Key) -> Follower | None:
        """Take a follower off: whoever fails with it has to begin anew."""
        with self._one_by_one:
            return self._kept.pop(key, None)

    def keep(self, key: Key, follower: Follower) -> None:
        """Keep a follower, and forget the oldest if there are too many events."""
        with self._one_by_one:
            self._kept[key] = follower
            while len(self._kept) > 1 and self._size() > KEPT_EVENTS:
                self._kept.popitem(last=False)

    def run(self, meaning: Key, follower: Follower, turn: Turn) -> Told:
        """Let a follower take a turn, and keep it."""
        follower.counts = Counts()
        rows = follower.take(turn.changes)
        follower.advance(turn.until)
        # Compressed here: they pass through sockets.
        base = write_part(follower.to_bytes()) if turn.whole else b""
        after = digest_of(base) if turn.whole else turn.after
        told = Told(rows, follower.counts, len(follower.ledger), base, after)
        self.keep((*meaning, after), follower)
        return told

    @property
    def home(self) -> str:
        """Return where other processes can ask for these followers; empty if nowhere."""
        if not _has_homes():
            return ""
        # One that was forked has no thread that answers.
        if self._home is None or self._home.pid != os.getpid():
            try:
                self._home = Home(self)
            except OSError:  # A machine may forbid sockets; then states are read.
                return ""
        return self._home.name

    def close(self) -> None:
        """Answer nobody any more, and forget all followers."""
        self._kept.clear()
        if self._home is not None:
            self._home.close()
            self._home = None

    def _size(self) -> int:
        return sum(one.size for one in self._kept.values())


class _Question(msgspec.Struct, array_like=True):
    meaning: Key
    before: str
    changes: bytes
    until: int
    after: str
    whole: bool


class _Reply(msgspec.Struct, array_like=True):
    rows: bytes
    counts: Counts
    events: int
    base: bytes
    after: str


class Home:
    """Lets other processes use the followers of this one."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.name, self.pid = shelf, secrets.token_hex(16), os.getpid()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(_address(self.name))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Answer nobody any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            # A thread for each: several buckets may have their home here.
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one: socket.socket) -> None:
        with one:
            try:
                one.settimeout(ANSWER_S)
                if _same_user(one):
                    _send(one, self._told(from_msgpack(_receive(one), _Question)))
            except Exception:  # Whoever asks reads the state, and meets it there.
                return

    def _told(self, asked: _Question) -> bytes:
        follower = self.shelf.take((*asked.meaning, asked.before))
        if follower is None:
            return b""
        turn = Turn(table_from_bytes(asked.changes), asked.until, asked.after, asked.whole)
        told = self.shelf.run(asked.meaning, follower, turn)
        reply = _Reply(table_to_bytes(told.rows), *told[1:])
        return msgspec.msgpack.encode(reply)


def ask(home: str, meaning: Key, before: str, turn: Turn) -> Told | None:
    """Let the home of a follower take a turn; None if it does not have it."""
    if not _NAME.fullmatch(home) or not _has_homes():
        return None
    changes = table_to_bytes(turn.changes)
    asked = _Question(meaning, before, changes, turn.until, turn.after, turn.whole)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(CONNECT_S)
            one.connect(_address(home))
            if not _same_user(one):
                return None
            one.settimeout(ANSWER_S)
            _send(one, msgspec.msgpack.encode(asked))
            data = _receive(one)
    except OSError:
        return None
    if not len(data):
        return None
    reply = from_msgpack(data, _Reply)
    rows = table_from_bytes(reply.rows)
    return Told(rows, reply.counts, reply.events, reply.base, reply.after)


def _has_homes() -> bool:
    return sys.platform == "linux"


def _address(name: str) -> str:
    return f"\0cepheid-{name}"


def _same_user(one: socket.socket) -> bool:
    """Check who is at the other end: such sockets have no permissions of files."""
    found = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1]) == os.getuid()


def _send(one: socket.socket, data: bytes) -> None:
    one.sendall(_LENGTH.pack(len(data)))
    one.sendall(data)


def _receive(one: socket.socket) -> memoryview:
    (size,) = _LENGTH.unpack(_exactly(one, _LENGTH.size))
    if size > MESSAGE_MAX:
        message = f"a message of {size} bytes is too long"
        raise OSError(message)
    return _exactly(one, size)


def _exactly(one: socket.socket, size: int) -> memoryview:
    view, got = memoryview(bytearray(size)), 0
    while got < size:
        more = one.recv_into(view[got:])
        if not more:
            message = "the other end is gone"
            raise ConnectionError(message)
        got += more
    return view
