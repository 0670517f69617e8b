"""The cases in Cepheid: our queries over the same files."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.cases import CASES, Case

import cepheid

VARIANTS = {case.name: (case,) for case in CASES}
DASHES: dict[str, str] = {}


def answer(case: Case, path: str) -> Any:
    """Return the rows of a query over a file."""
    if "MATCH_RECOGNIZE" in case.query:
        found: Any = cepheid.sql(case.query, tables={"events": path})
    else:
        found = cepheid.query(case.query, time_unit="ms").run(path)
    return found.select(list(case.columns))
