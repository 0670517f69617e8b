"""Processes that do the tasks of a workbench; one waits with its libraries loaded."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from cepheid.interfaces.web.requests import AnyTask

LINE_MAX = 64 << 20
"""Bytes of one message of a worker."""
AT_ONCE_MAX = 4
"""Tasks that run at the same time; others wait."""
IDLE_MAX = 2
"""Workers that wait, at most."""
TASKS_MAX = 50
"""A worker ends after so many tasks, and its memory with it."""
COMMAND = (sys.executable, "-m", "cepheid.interfaces.web.worker")


class Worker:
    """A process that does one task after the other."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._done = 0

    @property
    def is_fit(self) -> bool:
        """Check whether it can take a further task."""
        return self._process.returncode is None and self._done < TASKS_MAX

    async def messages(self, task: AnyTask) -> AsyncIterator[dict[str, Any]]:
        """Send a task, and yield what the process says until the task is done."""
        process = self._process
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        try:
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            await process.stdin.drain()
        except ConnectionError:
            pass  # Its output, or its end, says why.
        self._done += 1
        while line := await process.stdout.readline():
            message = msgspec.json.decode(line)
            yield message
            if "done" in message or "failed" in message:
                return

    async def steer(self, word: str) -> None:
        """Send a word to a task that is running."""
        assert self._process.stdin is not None, "it is a pipe"
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(word.encode() + b"\n")
            await self._process.stdin.drain()

    async def kill(self) -> None:
        """End the process at once."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()


class Workers:
    """Starts workers, and keeps one that is idle, so that the next task begins at once."""

    def __init__(self, functions: Sequence[str] = ()) -> None:
        self._command = (*COMMAND, *functions)
        self._idle: list[Worker] = []
        self._starting: asyncio.Task[Worker] | None = None
        self.turns = asyncio.Semaphore(AT_ONCE_MAX)

    def prepare(self) -> None:
        """Start a worker, unless one waits or starts already."""
        if not self._idle and self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def take(self) -> Worker:
        """Take a worker, and prepare the next one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_fit:
                self.prepare()
                return worker
            await worker.kill()
        self.prepare()
        assert self._starting is not None, "it was prepared"
        taken, self._starting = self._starting, None
        worker = await taken
        self.prepare()
        return worker

    async def give_back(self, worker: Worker) -> None:
        """Keep a worker that is done for the next task; end it if there are enough."""
        if worker.is_fit and len(self._idle) < IDLE_MAX:
            self._idle.append(worker)
        else:
            await worker.kill()

    async def close(self) -> None:
        """End the workers that wait."""
        if self._starting is not None:
            self._idle.append(await self._starting)
        for worker in self._idle:
            await worker.kill()

    async def _start(self) -> Worker:
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, limit=LINE_MAX
        )
        return Worker(process)
