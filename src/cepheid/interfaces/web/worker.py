"""A process that does tasks: a line of JSON comes in, lines of JSON and files go out.

A task in another process can be stopped at any moment. The server starts a worker before it needs
one, because loading the libraries takes longer than a small query, and a worker that is done waits
for the next task.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from cepheid.decoding import from_json
from cepheid.errors import CepheidError, visible
from cepheid.interfaces.cli_input import WrongUseError, import_functions
from cepheid.interfaces.web.live_task import replay
from cepheid.interfaces.web.match_task import explain_match
from cepheid.interfaces.web.requests import (
    AnyTask,
    LiveTask,
    MatchTask,
    RunTask,
    TimelineTask,
    WhyTask,
)
from cepheid.interfaces.web.run_task import answer_why, run_query
from cepheid.interfaces.web.timeline_task import build_timeline
from cepheid.interfaces.without_pandas import hide_pandas

Tell = Callable[[dict[str, Any]], None]

TOLD_EVERY_S = 0.1
"""Progress in between is not told."""


def main() -> None:
    """Do the tasks of standard input, a line each; further lines steer a live one.

    Words of the command name modules of functions, which may need pandas.
    """
    if len(sys.argv) == 1:
        hide_pandas()
    out = sys.stdout.buffer
    # What a library prints must not look like an answer.
    sys.stdout = sys.stderr
    for module in sys.argv[1:]:
        import_functions(module)

    def tell(message: dict[str, Any]) -> None:
        out.write(msgspec.json.encode(message, enc_hook=str) + b"\n")
        out.flush()

    try:
        while line := sys.stdin.buffer.readline():
            task: AnyTask = from_json(line, AnyTask)
            _answer(task, tell)
            if isinstance(task, LiveTask):
                break
    except BrokenPipeError:
        pass
    # Threads that read ahead may still be at work, and nobody waits for them.
    os._exit(0)


def _answer(task: AnyTask, tell: Tell) -> None:
    """Do a task, and tell its answer or its fault."""
    try:
        with _notices() as notices:
            done = _do(task, tell)
        tell({"done": done | {"notices": [visible(text) for text in notices]}})
    except CepheidError as error:
        tell({"failed": told(error)})
    except WrongUseError as error:
        tell({"failed": {"message": visible(str(error)), "diagnostics": []}})
    except MemoryError:
        tell({"failed": {"message": "the run needs more memory than there is", "diagnostics": []}})


def told(error: CepheidError) -> dict[str, Any]:
    """Convert an error to JSON: its text with carets, and its diagnostics."""
    diagnostics = [msgspec.to_builtins(one) for one in error.diagnostics]
    return {"message": visible(str(error), keep="\n"), "diagnostics": diagnostics}


@contextmanager
def _notices() -> Iterator[list[str]]:
    """Collect the warnings of a task."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    for one in caught:
        text = str(one.message)
        if text not in texts and "(W" in text:
            texts.append(text)


def _do(task: AnyTask, tell: Tell) -> dict[str, Any]:
    match task:
        case RunTask():
            return run_query(task, _progress(tell))
        case WhyTask():
            return answer_why(task)
        case TimelineTask():
            return build_timeline(task, _progress(tell))
        case MatchTask():
            return explain_match(task)
        case LiveTask():
            return replay(task, tell)


def _progress(tell: Tell) -> Callable[[int], None]:
    """Tell how many events were read, ten times a second at most."""
    last = 0.0

    def read(events: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= TOLD_EVERY_S:
            last = now
            tell({"events": events})

    return read


if __name__ == "__main__":
    main()
