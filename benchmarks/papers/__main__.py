"""Measure the papers' figures and write docs/papers.md: ``make papers``.

``--only greta-15`` measures one entry, ``--only greta`` those of a paper; the others stay as they
are in docs/papers.json. ``--page`` measures nothing. ``--data`` names the folder of real data.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from benchmarks.edge_streams import FOLDER_VARIABLE
from benchmarks.measure import ROOT
from benchmarks.papers import chart, page, results
from benchmarks.papers.entry import Entry
from benchmarks.papers.registry import ENTRIES


def options() -> argparse.ArgumentParser:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="keys of entries, or beginnings")
    parser.add_argument("--page", action="store_true", help="write the page from what is known")
    parser.add_argument("--data", help=f"the folder of real data, else {FOLDER_VARIABLE}")
    parser.add_argument("--list", action="store_true", help="list the entries")
    return parser


def chosen(keys: list[str]) -> list[Entry]:
    """Return the entries that keys name: one exactly, or all with that beginning."""
    names = {entry.key for entry in ENTRIES}
    return [
        entry
        for entry in ENTRIES
        if any(entry.key == key or (key not in names and entry.key.startswith(key)) for key in keys)
    ]


def main() -> int:
    """Measure, keep, and write the page; 1 if a measurement failed."""
    given = options().parse_args()
    if given.data:
        os.environ[FOLDER_VARIABLE] = given.data
    entries = chosen(given.only)
    if given.list or not entries:
        print("\n".join(f"{entry.key:16}{entry.title}" for entry in ENTRIES))
        return 0 if given.list else 2
    if not given.page and not results.commit():
        print("Figures need a commit that made them: run this in a git repository with a commit")
        return 2
    failed = [] if given.page else [entry.key for entry in entries if not _measured(entry)]
    known = results.load()
    try:
        files = chart.draw(ENTRIES, known)
        print(f"Charts: {len(files)} in {chart.FOLDER.relative_to(ROOT)}")
    except ModuleNotFoundError:
        print("No charts: they need the extra `charts`: pip install 'cepheid[charts]'")
    page.write(ENTRIES, known)
    print(f"Page: {page.PAGE.relative_to(ROOT)}")
    return 1 if failed else 0


def _measured(entry: Entry) -> bool:
    """Measure an entry and keep it at once, so that nothing is lost."""
    if entry.measure is None:
        return True
    began = time.perf_counter()
    print(f"{entry.key:16}{entry.title}", flush=True)
    try:
        kept = results.measure(entry)
    except Exception as error:
        print(f"{'':16}failed: {type(error).__name__}: {error}")
        return False
    known = results.load() | {entry.key: kept}
    results.save({e.key: known[e.key] for e in ENTRIES if e.key in known})
    print(f"{'':16}{time.perf_counter() - began:.0f} s")
    for verdict in page.verdicts(entry, kept):
        print(f"{'':16}{verdict.state.name}: {verdict.text}")
    return True


if __name__ == "__main__":
    sys.exit(main())
