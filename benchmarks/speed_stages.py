"""Which part of a run takes how long: functions of the engine are wrapped with clocks."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest import mock

from cepheid.events import files
from cepheid.kernels.tiers import Kernel
from cepheid.kinds.trend.program import reading, results
from cepheid.kinds.trend.windows import list_step, step


class _Here(threading.local):
    """The stages that a thread is in, and since when: files are read by a thread of their own."""

    def __init__(self) -> None:
        self.stages = ["Python"]
        self.since = time.thread_time()


class Stages:
    """The processor time of threads in each stage; inner stages do not count for outer ones.

    Reading is the decoding of files; encoding the conversion of columns to arrays and of times and
    keys to numbers; kernel the compiled loops; building the table of results. Arrow's own threads
    do not count.
    """

    names: ClassVar[tuple[str, ...]] = ("reading", "encoding", "kernel", "building", "Python")

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(self.names, 0.0)
        self._here = _Here()

    def shares(self) -> dict[str, float]:
        """Return the share of every stage."""
        total = sum(self.seconds.values()) or 1.0
        return {name: seconds / total for name, seconds in self.seconds.items()}

    @contextmanager
    def inside(self, stage: str) -> Iterator[None]:
        """Count the body for a stage."""
        self._switch()
        self._here.stages.append(stage)
        try:
            yield
        finally:
            self._switch()
            self._here.stages.pop()

    def _switch(self) -> None:
        now = time.thread_time()
        self.seconds[self._here.stages[-1]] += now - self._here.since
        self._here.since = now

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Wrap the functions of all stages within the body."""
        self._here = _Here()
        with ExitStack() as stack:
            for owner, name, stage in (
                (step, "read_arrays", "encoding"),
                (step, "admit_events", "encoding"),
                (step, "encode_events", "encoding"),
                (reading, "read_times", "encoding"),
                (results, "_add_up", "building"),
                (results, "groups_of", "building"),
                (list_step, "build_matches", "building"),
                (Kernel, "__call__", "kernel"),
            ):
                if hasattr(owner, name):
                    wrapped = self._wrapped(getattr(owner, name), stage)
                    stack.enter_context(mock.patch.object(owner, name, wrapped))
            read = self._generator(files._read_file)  # the place where files are decoded
            stack.enter_context(mock.patch.object(files, "_read_file", read))
            yield
        self._switch()

    def _wrapped(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            with self.inside(stage):
                return function(*arguments, **options)

        return timed

    def _generator(self, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def timed(*arguments: Any, **options: Any) -> Iterator[Any]:
            rows = function(*arguments, **options)
            while True:
                with self.inside("reading"):
                    row = next(rows, None)
                if row is None:
                    return
                yield row

        return timed
