"""Run queries with the Python package ``eql``, in a process of its own: it is installed apart.

Jobs as JSON on standard input, ``[{"query": ..., "events": [...]}, ...]``; the results of each on
standard output: lists of the ids of events, or a text that says why the package refused the query.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "build" / "eql"
"""Where `make eql` installs the package."""

REASON = "the package eql is missing: `make eql` fetches it"
ON_CI = os.environ.get("CI", "").lower() in {"1", "true"}
"""`.ci/run` installs the package, so nothing is left out there: a test without it fails."""
needs_eql = pytest.mark.skipif(not (FOLDER / "eql").is_dir() and not ON_CI, reason=REASON)


def judge(jobs: list[dict[str, Any]]) -> list[Any]:
    """Answer jobs by the package."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def _answer(query: str, events: list[dict[str, Any]]) -> Any:
    import eql  # type: ignore[import-not-found]  # Installed apart.

    found: list[list[int]] = []
    engine = eql.PythonEngine()
    try:
        engine.add_query(eql.parse_query(query))
    except eql.EqlError as error:
        return str(error)
    engine.add_output_hook(lambda r: found.append([one.data["id"] for one in r.events]))
    engine.stream_events(eql.Event(one["event_type"], one["timestamp"], one) for one in events)
    return found


if __name__ == "__main__":
    answers = [_answer(job["query"], job["events"]) for job in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))
