"""Reading ahead: the same items, in the same order, whatever happens in the thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from cepheid.events.ahead import AHEAD, read_ahead

SETTING: ContextVar[int] = ContextVar("SETTING", default=0)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_items_come_in_order(count: int) -> None:
    assert list(read_ahead(iter(range(count)))) == list(range(count))


def test_an_error_comes_behind_the_items_before_it() -> None:
    def broken() -> Iterator[int]:
        yield from (1, 2, 3)
        msg = "no more"
        raise ValueError(msg)

    items = read_ahead(broken())
    assert [next(items), next(items), next(items)] == [1, 2, 3]
    with pytest.raises(ValueError, match="no more"):
        next(items)


def test_only_a_few_items_are_read_before_they_are_needed() -> None:
    read: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            read.append(len(read))
            yield read[-1]

    items = read_ahead(endless())
    assert [next(items), next(items)] == [0, 1]
    time.sleep(0.05)
    assert len(read) <= 2 + AHEAD


def test_the_thread_ends_with_its_reader() -> None:
    before = threading.active_count()
    items = read_ahead(iter(range(1000)))
    assert [next(items), next(items)] == [0, 1]
    assert threading.active_count() == before + 1
    items.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() == before


def test_settings_of_the_caller_hold_in_the_thread() -> None:
    def settings() -> Iterator[int]:
        for _ in range(3):
            yield SETTING.get()

    token = SETTING.set(7)
    try:
        assert list(read_ahead(settings())) == [7, 7, 7]
    finally:
        SETTING.reset(token)
