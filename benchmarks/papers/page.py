"""Write docs/papers.md: entries and measurements in, the part of the page between markers out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from benchmarks.measure import ROOT
from benchmarks.papers.entry import Entry, Found, Panel, Point, State, Verdict
from benchmarks.papers.results import Kept

PAGE = ROOT / "docs" / "papers.md"
BEGIN, END = "<!-- papers -->", "<!-- end of papers -->"
SECTIONS = {
    "greta": "GRETA",
    "aseq": "A-Seq",
    "rcep": "RCEP",
    "cogra": "COGRA",
    "thesis-3": "Körber's thesis, chapter 3: stored streams",
    "thesis-4": "Körber's thesis, chapter 4: graphics processors",
    "thesis-5": "Körber's thesis, chapter 5: situations",
}
PICTURE = "img/papers/{key}.svg"
DRAWN_ONLY = ("plan, by estimate",)
"""What has too many places for a table."""

UNITS = {"times": "times", "%": "%", "bytes": "bytes", "M/s": "M events/s", "s": "s", "us": "µs"}


def write(entries: Sequence[Entry], results: Mapping[str, Kept], page: Path = PAGE) -> None:
    """Put the entries between the markers of the page."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{render(entries, results)}{END}{after}", encoding="utf-8")


def render(entries: Sequence[Entry], results: Mapping[str, Kept]) -> str:
    """Return the table of all verdicts, then a part for every paper."""
    parts = [_summary(entries, results)]
    for section, title in SECTIONS.items():
        own = [entry for entry in entries if entry.section == section]
        parts.append(f"## {title}\n")
        parts += [_entry(entry, results.get(entry.key)) for entry in own]
    return "\n".join(parts)


def verdicts(entry: Entry, kept: Kept | None) -> Sequence[Verdict]:
    """Compare a measurement with the paper."""
    return () if kept is None else entry.compare(kept.found)


def _summary(entries: Sequence[Entry], results: Mapping[str, Kept]) -> str:
    every = [(entry, verdicts(entry, results.get(entry.key))) for entry in entries]
    states = Counter(verdict.state for _, own in every for verdict in own)
    claims = states.total() - states[State.SHOWN]
    measured = sum(entry.key in results and not entry.machine for entry in entries)
    elsewhere = sum(bool(entry.machine) for entry in entries)
    missing = ", ".join(f"`{entry.key}`" for entry, own in every if not own)
    lines = [
        f"{len(entries)} figures and tables: {measured} measured by this command, {elsewhere} kept "
        f"from a machine with a GPU. Of {claims} claims {states[State.HOLDS]} hold here, many at "
        f"smaller sizes than the papers', {states[State.FAILS]} do not, and {states[State.OPEN]} "
        "could not be tested. What is *shown* is a figure of ours, and no claim of the paper."
    ]
    if missing:
        lines.append(f"\nNot measured, with the reason below: {missing}.")
    failed = [(entry, claim) for entry, own in every for claim in own if claim.state is State.FAILS]
    if failed:
        lines.append("\nThose that do not hold:\n")
        lines += [f"- `{entry.key}`: {claim.text}." for entry, claim in failed]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry, kept: Kept | None) -> str:
    lines = [f"### {entry.title}\n", f"**The paper.** {entry.paper}\n"]
    command = f"`make papers ARGS='--only {entry.key}'`"
    if kept is None:
        return "\n".join([*lines, f"**Here.** {entry.here} {entry.missing} {command}\n"])
    found = kept.found
    note = f" {found.note}" if found.note else ""
    lines.append(f"**Here.** {entry.here} Data: {found.data}.{note}\n")
    shown = ", ".join(dict.fromkeys(panel.title for panel in entry.panels))
    name = entry.title.partition(":")[0]
    lines.append(f"![{name} drawn: {shown}]({PICTURE.format(key=entry.key)})\n")
    lines += [f"{table(panel, found)}\n" for panel in entry.panels if panel.x not in DRAWN_ONLY]
    for verdict in verdicts(entry, kept):
        lines.append(f"- {verdict.state.value}: {verdict.text}.")
    where = entry.machine or f"{_day(kept.day)}, CPU time, load {kept.load:g}"
    lines.append(f"\n{command}; {where}.\n")
    return "\n".join(lines)


def table(panel: Panel, found: Found) -> str:
    """Return a panel as a table: places down, methods across."""
    points = [point for point in found.points if point.panel == panel.key]
    places = list(dict.fromkeys(point.x for point in points))
    if all(not isinstance(place, str) for place in places):
        places.sort(key=float)
    series = list(dict.fromkeys(point.series for point in points))
    by_place = {(point.x, point.series): point for point in points}
    unit = UNITS.get(panel.unit, panel.unit)
    head = f"{panel.x} ({panel.title}{', ' if unit else ''}{unit})"
    lines = [f"| {head} | {' | '.join(series)} |", "|---" * (len(series) + 1) + "|"]
    for place in places:
        cells = [cell(by_place.get((place, name)), panel.unit) for name in series]
        lines.append(f"| {place_text(place)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(point: Point | None, unit: str) -> str:
    """Return a figure with about three digits; a dash where a method gave up."""
    if point is None:
        return ""
    if point.y is None:
        return "gave up"
    if unit == "%":
        return f"{100 * point.y:.1f}" if point.y < 0.1 else f"{100 * point.y:.0f}"
    if point.y == 0 or not math.isfinite(point.y):
        return f"{point.y:g}"
    digits = 2 - math.floor(math.log10(abs(point.y)))
    return f"{point.y:,.{min(max(digits, 0), 6)}f}"


def place_text(place: float | str) -> str:
    """Return a place of an axis."""
    if isinstance(place, str):
        return place
    return f"{place:,.0f}" if place == int(place) else f"{place:g}"


def _day(iso: str) -> str:
    day = date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"
