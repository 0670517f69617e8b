"""All figures and tables of the papers' evaluations, in the order of the page."""

from __future__ import annotations

from benchmarks.papers import cogra, greta
from benchmarks.papers.entry import Entry

ENTRIES: tuple[Entry, ...] = (*greta.ENTRIES, *cogra.ENTRIES)
BY_KEY = {entry.key: entry for entry in ENTRIES}
