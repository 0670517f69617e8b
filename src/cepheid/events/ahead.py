"""Read ahead: a thread gets the next tables while the caller works on the present one.

Arrow decodes files without Python's lock, and so do kernels run; together they use two cores.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD = 2
"""Tables that wait for the caller, at most."""


class _Reading(Generic[T]):
    """An iterator that a thread consumes, and what it has found so far."""

    def __init__(self, items: Iterator[T], ahead: int) -> None:
        self._items = items
        self._room = threading.Semaphore(ahead)
        self._stopped = False
        self._found: queue.SimpleQueue[tuple[T] | Exception | None] = queue.SimpleQueue()
        # Limits and other settings of the caller hold in the thread, too.
        self._thread = threading.Thread(target=copy_context().run, args=(self._read,), daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            self._room.acquire()
            if self._stopped:
                return
            try:
                found = (next(self._items),)
            except StopIteration:
                self._found.put(None)
                return
            except Exception as error:  # The caller raises it.
                self._found.put(error)
                return
            self._found.put(found)

    def items(self) -> Iterator[T]:
        """Yield the items in order; raise what the iterator raised."""
        while (found := self._found.get()) is not None:
            if isinstance(found, Exception):
                raise found
            yield found[0]
            self._room.release()

    def stop(self) -> None:
        """End the thread, which may be in the middle of an item."""
        self._stopped = True
        self._room.release()
        self._thread.join()


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator while a thread gets the next ones.

    The first item is read without a thread, because most inputs have only one.
    """
    for first in items:
        yield first
        break
    reading = _Reading(items, AHEAD)
    try:
        yield from reading.items()
    finally:
        reading.stop()
