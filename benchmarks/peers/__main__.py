"""Ask other systems the same questions: ``python -m benchmarks.peers``, or ``make bench-peers``.

Installs the systems, runs every case, compares the answers, and writes ``docs/peers.md``. What was
measured is kept in ``build/peers/results.json``: a run of some systems or cases replaces theirs.
``--quick`` ends within ten minutes once everything is installed, and writes a page of its own,
``build/peers/quick/peers.md``: one round, a few CPU seconds a case, and a tenth of the events for
systems of Java, which are slow.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers import page
from benchmarks.peers.cases import BY_NAME, CASES
from benchmarks.peers.data import write_files
from benchmarks.peers.measure import (
    Found,
    Plan,
    disagreements,
    event_counts,
    measure,
    other_work,
)
from benchmarks.peers.systems import BUILD, OURS, ROOT, SYSTEMS, NotInstalledError

CHART = "bench-peers.png"
QUICK = BUILD / "quick"
QUICK_LIMIT_S, QUICK_MINUTES = 3.0, 9.5
SLOW_SHARE = 10
"""A quick run asks systems of Java about so many times fewer events."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare and write the page; 1 if an answer differs."""
    asked = _asked(arguments)
    plan = Plan(
        BUILD / "data", asked.events, asked.limit, asked.rounds, SLOW_SHARE if asked.quick else 1
    )
    kept = asked.results / "results.json"
    is_whole = (len(asked.systems), len(asked.cases)) == (len(SYSTEMS), len(CASES))
    results = _load(kept, asked.events)
    if is_whole and not asked.render:
        results = _nothing(asked.events)
    systems = [SYSTEMS[name] for name in asked.systems]
    missing: dict[str, str] = results.setdefault("missing", {})
    if not asked.render:
        write_files(plan.folder, event_counts(asked.events))
        for system in systems:
            missing.pop(system.name, None)
            try:
                system.install()
            except (NotInstalledError, OSError, subprocess.TimeoutExpired) as error:
                missing[system.name] = str(error)
                print(f"{system.title} is left out: {error}", flush=True)
        shares: list[float] = []
        ends = time.monotonic() + 60 * QUICK_MINUTES if asked.quick else math.inf
        for name in asked.cases:
            for system in systems:
                if system.name in missing:
                    continue
                with other_work(shares):
                    found = measure(plan, system, BY_NAME[name], ends - time.monotonic())
                results["found"][f"{system.name} {name}"] = asdict(found)
                print(_line(found), flush=True)
                _keep(kept, results)
        # A page of several runs tells of the busiest.
        results["others"] = max(results["others"], sorted(shares)[len(shares) // 2])
        results["day"] = f"{dt.datetime.now(dt.UTC):%d %B %Y}"
        for system in systems:
            if system.name not in missing:
                results["versions"][system.title] = system.version()
        _keep(kept, results)
    return _write(asked, results)


def _asked(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    names = ",".join(SYSTEMS), ",".join(case.name for case in CASES)
    parser.add_argument("--events", type=int, default=1_000_000, help="of the largest file")
    parser.add_argument("--limit", type=float, help="CPU seconds of a case: 20, quick 3")
    parser.add_argument("--rounds", type=int, help="runs, of which the best counts: 5, quick 1")
    parser.add_argument("--quick", action="store_true", help="end within ten minutes")
    parser.add_argument("--systems", default=names[0], help="some of the systems")
    parser.add_argument("--cases", default=names[1], help="some of the cases")
    parser.add_argument("--render", action="store_true", help="write the page of the last run")
    parser.add_argument(
        "--note", default="", help="a sentence for the page, on how it was measured"
    )
    parser.add_argument("--results", type=Path, help="the folder of results.json")
    parser.add_argument("--docs", type=Path, help="the folder of the page")
    asked = parser.parse_args(arguments)
    quick = asked.quick
    asked.limit = asked.limit or (QUICK_LIMIT_S if quick else 20.0)
    asked.rounds = asked.rounds or (1 if quick else 5)
    asked.results = asked.results or (QUICK if quick else BUILD)
    asked.docs = asked.docs or (QUICK if quick else ROOT / "docs")
    asked.systems, asked.cases = asked.systems.split(","), asked.cases.split(",")
    for given, known in ((asked.systems, list(SYSTEMS)), (asked.cases, list(BY_NAME))):
        for name in given:
            if name not in known:
                parser.error(f"`{name}` is none of {', '.join(known)}")
    return asked


def _load(path: Path, events: int) -> dict[str, Any]:
    """Return what was measured before with as many events."""
    if path.exists():
        results: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if results["events"] == events:
            return results
    return _nothing(events)


def _nothing(events: int) -> dict[str, Any]:
    return {"events": events, "found": {}, "versions": {}, "missing": {}, "others": 0.0, "day": ""}


def _keep(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), "utf-8")


def _line(found: Found) -> str:
    name = f"{found.case:9} {SYSTEMS[found.system].title:10}"
    if not found.is_measured:
        return f"{name} – {found.reason}"
    return f"{name} {found.events:>10,} events {found.wall_s:8.3f} s {found.cpu_s:8.3f} CPU s"


def _write(asked: Any, results: dict[str, Any]) -> int:
    """Write the page and its chart."""
    every = []
    for one in results["found"].values():
        checks = tuple((size, tuple(check)) for size, check in one["checks"])
        every.append(Found(**one | {"checks": checks}))
    found = {(one.system, one.case): one for one in every}
    found = {place: one for place, one in found.items() if (OURS.name, place[1]) in found}
    differ = disagreements(every)
    setting = page.Setting(
        results["day"], results["events"], os.cpu_count() or 1, results["others"], asked.rounds,
        asked.limit, results["versions"], results["missing"], differ, asked.note,
    )  # fmt: skip
    asked.docs.mkdir(parents=True, exist_ok=True)
    (asked.docs / "peers.md").write_text(page.render(found, setting, CHART), "utf-8")
    try:
        page.draw(found, asked.docs / "img" / CHART)
    except ModuleNotFoundError:
        print("No chart: it needs the extra `charts`: pip install 'cepheid[charts]'")
    for line in differ:
        print(f"DIFFERS {line}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
