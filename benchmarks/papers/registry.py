"""All figures and tables of the papers' evaluations, in the order of the page."""

from __future__ import annotations

from benchmarks.papers import (
    aseq,
    cogra,
    gpu,
    greta,
    parallel,
    rcep,
    situations,
    stored,
    stored_real,
)
from benchmarks.papers.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *greta.ENTRIES,
    *aseq.ENTRIES,
    *rcep.ENTRIES,
    *cogra.ENTRIES,
    *stored.ENTRIES,
    *stored_real.ENTRIES,
    *gpu.ENTRIES,
    *situations.ENTRIES,
    *parallel.ENTRIES,
)
BY_KEY = {entry.key: entry for entry in ENTRIES}
