"""Draw the matches of small streams on timelines, as SVG: the pictures of docs/timelines.md.

Matches come from the engine, so a picture cannot differ from what a query means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

import cepheid

LEFT, STEP, ROW, TOP = 230, 52, 26, 46
COLOURS = {"A": "#3b5bdb", "B": "#d9480f", "C": "#868e96", "N": "#c2255c"}
INK, PALE = "#343a40", "#adb5bd"


class Lane(NamedTuple):
    """A query whose matches are drawn below the events; ``windows`` are from and to."""

    title: str
    query: str
    windows: tuple[tuple[int, int], ...] = ()


class Drawing(NamedTuple):
    """Events as (type, time), and the lanes below them."""

    events: tuple[tuple[str, int], ...]
    lanes: tuple[Lane, ...]


def events_of(text: str) -> tuple[tuple[str, int], ...]:
    """Read events: ``A1 A2 C3``."""
    return tuple((word[0], int(word[1:])) for word in text.split())


_LOOP = events_of("A1 A2 C3 A4 B5")
_PAIRS = events_of("A1 B2 A3 B4 A5 B6")
DRAWINGS = {
    "any-next-contiguous": Drawing(
        _LOOP,
        (
            Lane("skip-till-any-match", "RETURN MATCHES PATTERN SEQ(A+, B)"),
            Lane("skip-till-next-match", "RETURN MATCHES PATTERN SEQ(A+, B) SEMANTICS next"),
            Lane("contiguous", "RETURN MATCHES PATTERN SEQ(A+, B) SEMANTICS contiguous"),
        ),
    ),
    "windows": Drawing(
        _PAIRS,
        (
            Lane("no window", "RETURN MATCHES PATTERN SEQ(A, B)"),
            Lane("WITHIN 2 s", "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 2 s"),
            Lane(
                "WITHIN 4 s SLIDE 2 s",
                "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 4 s SLIDE 2 s",
                ((0, 4), (2, 6), (4, 8)),
            ),
        ),
    ),
    "ties": Drawing(
        events_of("A1 A2 B2 B3"),
        (
            Lane("TIES strict", "RETURN MATCHES PATTERN SEQ(A, B)"),
            Lane("TIES arrival", "RETURN MATCHES PATTERN SEQ(A, B) TIES arrival"),
        ),
    ),
    "negation": Drawing(
        events_of("A1 N2 A3 B4 N5 B6"),
        (
            Lane("SEQ(A, B)", "RETURN MATCHES PATTERN SEQ(A, B)"),
            Lane("SEQ(A, NOT N, B)", "RETURN MATCHES PATTERN SEQ(A, NOT N, B)"),
            Lane(
                "SEQ(A, B, NOT N WITHIN 2 s)", "RETURN MATCHES PATTERN SEQ(A, B, NOT N WITHIN 2 s)"
            ),
            Lane("SEQ(NOT N WITHIN 2 s, B)", "RETURN MATCHES PATTERN SEQ(NOT N WITHIN 2 s, B)"),
        ),
    ),
    "skip": Drawing(
        events_of("A1 A2 B3 A4 B5"),
        (
            Lane("all matches", "RETURN MATCHES PATTERN SEQ(A, B)"),
            Lane("SKIP PAST LAST", "RETURN MATCHES PATTERN SEQ(A, B) AFTER MATCH SKIP PAST LAST"),
            Lane("SKIP TO NEXT", "RETURN MATCHES PATTERN SEQ(A, B) AFTER MATCH SKIP TO NEXT"),
        ),
    ),
}


def draw(drawing: Drawing) -> str:
    """Draw events and lanes."""
    places = _places(drawing.events)
    last = max([*places, *(end - 1 for lane in drawing.lanes for _, end in lane.windows)])
    body = [
        _text(12, TOP + 4, "events", bold=True),
        _line(LEFT - 20, TOP, LEFT + STEP * last + 30, TOP, PALE),
    ]
    for place, (kind, time) in zip(places, drawing.events, strict=True):
        body += [
            *_event(place, TOP, kind),
            _text(LEFT + STEP * place, TOP - 16, str(time), middle=True),
        ]
    y = TOP + ROW
    for lane in drawing.lanes:
        y += 14
        body.append(_line(12, y - 14, LEFT + STEP * last + 30, y - 14, "#e9ecef"))
        rows = _rows(lane, drawing, places)
        body.append(_text(12, y + 4, lane.title, bold=True))
        body.append(_text(12, y + 20, _told(lane, drawing)))
        for row in rows:
            body += [part.replace("{y}", str(y)).replace("{t}", str(y + 4)) for part in row]
            y += ROW
        y += 18 if len(rows) < 2 else 0
    width, height = LEFT + STEP * last + 50, y
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _places(events: Sequence[tuple[str, int]]) -> list[float]:
    """Place events by their times; those of one time lie close together."""
    places: list[float] = []
    for number, (_, time) in enumerate(events):
        before = sum(1 for _, other in events[:number] if other == time)
        places.append(time - 1 + 0.45 * before)
    return places


def _run(lane: Lane, drawing: Drawing) -> list[dict[str, object]]:
    kinds, times = zip(*drawing.events, strict=True)
    table = pa.table({"ts": times, "type": kinds, "place": range(len(times))})
    rows: list[dict[str, object]] = cepheid.query(lane.query, time_unit="s").run(table).to_pylist()
    return rows


def _told(lane: Lane, drawing: Drawing) -> str:
    if lane.windows:
        return "matches in each window"
    count = len(_run(lane, drawing))
    return f"{count} match{'' if count == 1 else 'es'}"


def _rows(lane: Lane, drawing: Drawing, places: list[float]) -> list[list[str]]:
    """Draw the matches of a lane, or its windows with counts; ``{y}`` is where a row lies."""
    found = _run(lane, drawing)
    if lane.windows:
        counts = {row["window_start"]: row["count"] for row in found}
        return [_window(start, end, counts.get(start)) for start, end in lane.windows]
    return [_match(_numbers(row["events"]), drawing, places) for row in found]


def _numbers(events: object) -> list[int]:
    assert isinstance(events, list), "matches list their events"
    return [event["place"] for event in events]


def _match(numbers: list[int], drawing: Drawing, places: list[float]) -> list[str]:
    xs = [LEFT + STEP * places[number] for number in numbers]
    parts = [
        f'<line x1="{xs[0]:g}" y1="{{y}}" x2="{xs[-1]:g}" y2="{{y}}" '
        f'stroke="{INK}" stroke-width="2"/>'
    ]
    for number in numbers:
        parts += _event(places[number], "{y}", drawing.events[number][0])
    return parts


def _window(start: int, end: int, count: object) -> list[str]:
    left, right = LEFT + STEP * (start - 1), LEFT + STEP * (end - 1)
    told = "none" if count is None else f"{count:g}"
    return [
        f'<line x1="{left:g}" y1="{{y}}" x2="{right:g}" y2="{{y}}" '
        f'stroke="{PALE}" stroke-width="10"/>',
        f'<text x="{(left + right) / 2:g}" y="{{t}}" text-anchor="middle" '
        f'fill="{INK}">{told}</text>',
    ]


def _event(place: float, y: float | str, kind: str) -> list[str]:
    x = LEFT + STEP * place
    lower = "{t}" if isinstance(y, str) else f"{y + 4:g}"
    return [
        f'<circle cx="{x:g}" cy="{y}" r="10" fill="{COLOURS[kind]}"/>',
        f'<text x="{x:g}" y="{lower}" text-anchor="middle" '
        f'fill="#ffffff" font-weight="bold">{kind}</text>',
    ]


def _text(x: float, y: float, text: str, *, bold: bool = False, middle: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{INK}"{weight}{anchor}>{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}"/>'
