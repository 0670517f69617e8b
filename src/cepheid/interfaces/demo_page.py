"""Build the page of ``cepheid demo``: one file of HTML with its pictures, which asks no network.

Colours come from the system's light or dark scheme. Every text from data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_SOURCES = (
    "The shop is made up. The trades are from the sample data of QuantConnect/Lean, Apache-2.0."
)

WIDTH, ROW, LABEL = 720, 28, 130
HEIGHT = 180
SERIES = ("a", "b", "c", "d", "e", "f")

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --faint: #667085; --page: #fbfbfa; --card: #fff;
  --line: #e3e5e8; --a: #2f6fd6; --b: #c2571a; --c: #1a8a5f; --d: #8b4fc4; --e: #a98200;
  --f: #b8336a }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --faint: #9aa4b2; --page: #14171c;
  --card: #1c2027; --line: #303641; --a: #6ea3ff; --b: #f0925a; --c: #4fc596; --d: #bd8cf0;
  --e: #dcb94a; --f: #ee7aa6 } }
body { margin: 0 auto; padding: 2rem 1rem; max-width: 48rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.25rem; margin: 1.25rem 0 }
h1 { font-size: 1.6rem; margin: 0 0 .25rem } h2 { font-size: 1.1rem; margin: 0 0 .5rem }
p { margin: .5rem 0 } .faint { color: var(--faint) }
pre { background: var(--page); border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem .8rem; overflow-x: auto; font-size: .82rem }
svg { width: 100%; height: auto; display: block } text { fill: var(--ink); font-size: 13px }
.axis { fill: var(--faint); font-size: 11px } .a { fill: var(--a) } .b { fill: var(--b) }
.rule { stroke: var(--line) } polyline { fill: none; stroke-width: 2 }
"""


class Section(NamedTuple):
    """A question, its query, the answer in words, its picture, and its time."""

    title: str
    text: str
    told: str
    picture: str
    seconds: float


def page_of(sections: Sequence[Section], note: str = "") -> str:
    """Build the whole page."""
    parts = [
        f"<section><h2>{number}. {escape(s.title)}</h2>{s.picture}<pre>{escape(s.text)}</pre>"
        f'<p>{escape(s.told)} <span class="faint">({s.seconds:.1f} s)</span></p></section>'
        for number, s in enumerate(sections, 1)
    ]
    last = "".join(f'<p class="faint">{escape(one)}</p>' for one in (note, _SOURCES) if one)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Cepheid: what happened?</title><style>{_STYLE}</style></head><body>"
        "<h1>Cepheid: what happened?</h1>"
        '<p class="faint">Patterns in streams of events, from short queries.</p>'
        f"{''.join(parts)}{last}</body></html>\n"
    )


def svg_bars(labels: Sequence[str], values: Sequence[float]) -> str:
    """Draw a bar for every label, from left to right."""
    most = max([*values, 1])
    space = WIDTH - LABEL - 70
    parts = []
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        middle = place * ROW + ROW / 2
        length = space * value / most
        parts.append(_text(0, middle + 4, " ".join(label.split())))
        parts.append(
            f'<rect class="a" x="{LABEL}" y="{place * ROW + 4}" width="{length:.1f}" '
            f'height="{ROW - 8}" rx="3"/>'
        )
        parts.append(_text(LABEL + length + 6, middle + 4, f"{value:,.0f}"))
    return _svg(len(labels) * ROW, parts)


def svg_columns(values: Sequence[float], labels: Sequence[str], marked: int | None = None) -> str:
    """Draw a column for every value, and one of them in another colour."""
    most, step = max([*values, 1]), WIDTH / len(values)
    parts = [_rule(HEIGHT - 24)]
    for place, value in enumerate(values):
        height = (HEIGHT - 44) * value / most
        kind = "b" if place == marked else "a"
        parts.append(
            f'<rect class="{kind}" x="{place * step + 2:.1f}" y="{HEIGHT - 24 - height:.1f}" '
            f'width="{step - 4:.1f}" height="{height:.1f}" rx="2"/>'
        )
        if value:
            top = HEIGHT - 29 - height
            parts.append(_text(place * step + step / 2, top, f"{value:g}", "axis", "middle"))
        if place % 3 == 0:
            label = _text(place * step + step / 2, HEIGHT - 6, labels[place], "axis", "middle")
            parts.append(label)
    return _svg(HEIGHT, parts)


def svg_lines(series: dict[str, list[float]], labels: Sequence[str]) -> str:
    """Draw a line for every series on a logarithmic scale; 0 lies on the ground."""
    heights = {name: [math.log10(max(v, 1)) for v in values] for name, values in series.items()}
    most = max([h for values in heights.values() for h in values] + [1.0])
    left, right, ground = 46, WIDTH - 52, HEIGHT - 24
    step = (right - left) / max(len(labels) - 1, 1)
    parts = []
    for power in range(0, math.ceil(most) + 1, max(1, math.ceil(most / 4))):
        y = ground - (ground - 14) * power / most
        if y > 0:
            parts += [_rule(y, left), _text(left - 6, y + 4, f"10^{power}", "axis", "end")]
    for place, label in enumerate(labels):
        parts.append(_text(left + place * step, HEIGHT - 6, label, "axis", "middle"))
    for colour, values in zip(SERIES, heights.values(), strict=False):
        points = [
            (left + place * step, ground - (ground - 14) * value / most)
            for place, value in enumerate(values)
        ]
        shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline style="stroke: var(--{colour})" points="{shown}"/>')
    ends = sorted((ground - (ground - 14) * v[-1] / most, name) for name, v in heights.items())
    colours = dict(zip(heights, SERIES, strict=False))
    lowest = -math.inf
    for y, name in ends:
        lowest = max(y, lowest + 13)  # Names of lines that end close together stand apart.
        parts.append(
            f'<text style="fill: var(--{colours.get(name, "ink")})" x="{right + 6}" '
            f'y="{lowest + 4:.1f}">{escape(name)}</text>'
        )
    return _svg(HEIGHT, parts)


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(y: float, left: float = 0) -> str:
    return f'<line class="rule" x1="{left}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
