"""The runs of a workbench: each has a task, a folder, its progress and, in the end, an answer."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cepheid.interfaces.web.requests import AnyTask, LiveTask
from cepheid.interfaces.web.run_task import RESULT
from cepheid.interfaces.web.workers import Worker, Workers

MESSAGES_KEPT = 200
"""Messages of a live run that a page that comes later still gets."""
RUNS_KEPT = 30
"""Older runs are forgotten, and their files removed."""


class Run:
    """A task that runs, or has run; ``waiters`` are told of every message."""

    def __init__(self, task: AnyTask) -> None:
        self.id = Path(task.folder).name
        self.task = task
        self.status = "running"
        self.events = 0
        self.answer: dict[str, Any] = {}
        self.messages: list[dict[str, Any]] = []
        self.begun = time.monotonic()
        self.ended: float | None = None
        self.changed = asyncio.Condition()
        self.views: dict[str, Any] = {}
        """A cache of values computed from the answer, by name."""
        self._told = 0
        self._answered = False
        self._worker: Worker | None = None
        self._job: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of its files."""
        return Path(self.task.folder)

    @property
    def is_running(self) -> bool:
        """Check whether it has not ended."""
        return self.status == "running"

    def told(self) -> dict[str, Any]:
        """Describe it for the page."""
        end = self.ended or time.monotonic()
        return {
            "id": self.id,
            "status": self.status,
            "events": self.events,
            "seconds": end - self.begun,
            "answer": self.answer,
        }

    def start(self, workers: Workers) -> None:
        """Do the task in a worker."""
        self._job = asyncio.create_task(self._do(workers))

    async def _do(self, workers: Workers) -> None:
        seconds = None if isinstance(self.task, LiveTask) else self.task.limits.seconds
        try:
            # A live run may take hours, and others must not wait for it.
            turn = workers.turns if seconds is not None else contextlib.nullcontext()
            async with turn, asyncio.timeout(seconds):
                self._worker = await workers.take()
                async for message in self._worker.messages(self.task):
                    await self._hear(message)
            if self.is_running:
                await self._end("failed", {"message": "the run ended without an answer"})
        except TimeoutError:
            text = f"the run was stopped after {seconds:g} s, the limit of this workbench"
            await self._end("failed", {"message": text, "diagnostics": []})
        finally:
            if self._worker is not None and self._answered and seconds is not None:
                await workers.give_back(self._worker)
            elif self._worker is not None:
                await self._worker.kill()

    async def _hear(self, message: dict[str, Any]) -> None:
        self._answered = "done" in message or "failed" in message
        if "done" in message:
            await self._end("done", message["done"])
        elif "failed" in message:
            await self._end("failed", message["failed"])
        else:
            self.events = message.get("events", self.events)
            if "live" in message:
                self.events = message["live"]["events"]
                self.messages.append(message | {"number": self._told})
                self._told += 1
                del self.messages[:-MESSAGES_KEPT]
            async with self.changed:
                self.changed.notify_all()

    async def _end(self, status: str, answer: dict[str, Any]) -> None:
        if self.is_running:
            self.status, self.answer, self.ended = status, answer, time.monotonic()
        async with self.changed:
            self.changed.notify_all()

    async def finished(self, seconds: float) -> None:
        """Wait until it has ended, or for some seconds."""
        try:
            async with asyncio.timeout(seconds), self.changed:
                await self.changed.wait_for(lambda: not self.is_running)
        except TimeoutError:
            pass

    async def cancel(self) -> None:
        """Stop it at once."""
        if not self.is_running:
            return  # Its worker may do another task now.
        await self._end("cancelled", {"message": "the run was cancelled", "diagnostics": []})
        if self._worker is not None:
            await self._worker.kill()

    async def stop(self) -> None:
        """Ask a live run to write its state and end."""
        if self._worker is not None and self.is_running:
            await self._worker.steer("stop")

    def rows(self) -> pa.Table:
        """Open its rows; they stay in the file until they are read."""
        if "rows" not in self.views:
            with pa.memory_map(str(self.folder / RESULT), "rb") as source:
                self.views["rows"] = pa.ipc.open_file(source).read_all()
        table: pa.Table = self.views["rows"]
        return table


class Runs:
    """All runs by their id; the folder of their files goes with the workbench."""

    def __init__(self, functions: Sequence[str] = ()) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="cepheid-serve-"))
        self.workers = Workers(functions)
        self._runs: dict[str, Run] = {}

    def start(self, make: Callable[[str], AnyTask]) -> Run:
        """Make a task for a new folder, and start it."""
        folder = self.root / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        run = Run(make(str(folder)))
        self._runs[run.id] = run
        run.start(self.workers)
        self._forget()
        return run

    def count_live(self) -> int:
        """Count the live runs that have not ended."""
        running = [run for run in self._runs.values() if run.is_running]
        return sum(isinstance(run.task, LiveTask) for run in running)

    def find(self, id_: str) -> Run | None:
        """Find a run."""
        return self._runs.get(id_)

    def _forget(self) -> None:
        old = [run for run in self._runs.values() if not run.is_running]
        for run in old[: max(0, len(self._runs) - RUNS_KEPT)]:
            del self._runs[run.id]
            shutil.rmtree(run.folder, ignore_errors=True)

    async def close(self) -> None:
        """End all runs, and remove their files."""
        for run in list(self._runs.values()):
            if run.is_running:
                await run.cancel()
        await self.workers.close()
        shutil.rmtree(self.root, ignore_errors=True)
