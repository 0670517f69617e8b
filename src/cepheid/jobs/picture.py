"""Draw automata and other small graphs as SVG, without scripts and with every text escaped."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from cepheid.errors import Span
from cepheid.language.tree import Expression

NODES_MAX = 16
"""Larger graphs are not drawn: their texts would overlap."""

_STEP, _RADIUS, _MIDDLE = 130, 24, 80
_LABEL_MAX, _NARROW = 22, 13


class Condition(NamedTuple):
    """A condition in the words of the query, its place there, and what it means.

    Attributes of an arrow's later event have the anchor NEXT.
    """

    text: str
    span: Span
    expression: Expression


class Link(NamedTuple):
    """An arrow between nodes, by their places, with an optional label and its conditions."""

    source: int
    target: int
    label: str = ""
    conditions: tuple[Condition, ...] = ()


class Graph(NamedTuple):
    """Nodes by their labels, arrows between them, and the places of nodes with a double border.

    Of each node ``types`` has the type of its events, and ``conditions`` what each must satisfy.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]
    ends: frozenset[int] = frozenset()
    types: tuple[str, ...] = ()
    conditions: tuple[tuple[Condition, ...], ...] = ()


def draw(graph: Graph) -> str:
    """Draw a graph from left to right as SVG; an empty text if it is too large.

    Examples
    --------
    >>> draw(Graph(("start", "<A>"), (Link(0, 1),)))[:28]
    '<svg xmlns="http://www.w3.or'
    """
    if len(graph.nodes) > NODES_MAX:
        return ""
    reach = max((abs(link.target - link.source) for link in graph.links), default=1)
    height = 2 * _MIDDLE + 24 * max(reach - 1, 0)
    width = _STEP * len(graph.nodes)
    middle = height // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" '
        'stroke="currentColor" fill="none">'
    ]
    parts += [_arrow(link, middle) for link in graph.links]
    for place, label in enumerate(graph.nodes):
        x = _center(place)
        parts.append(f'<circle cx="{x}" cy="{middle}" r="{_RADIUS}"/>')
        if place in graph.ends:
            parts.append(f'<circle cx="{x}" cy="{middle}" r="{_RADIUS - 4}"/>')
        parts.append(_text(x, middle + 4, label, 10))
    return "".join([*parts, "</svg>"])


def _center(place: int) -> int:
    return _STEP // 2 + _STEP * place


def _arrow(link: Link, middle: int) -> str:
    """Draw a straight arrow to the next node, a loop, or an arc: forward above, back below."""
    start, end = _center(link.source), _center(link.target)
    most = _NARROW if link.target == link.source + 1 else _LABEL_MAX
    if link.target == link.source + 1:
        x, y = (start + end) // 2, middle - 8
        head = (end - _RADIUS, middle, -1, 0)
        path = f"M{start + _RADIUS} {middle}H{end - _RADIUS}"
    else:
        side = 1 if link.target < link.source else -1
        rise = 34 + 12 * max(abs(link.target - link.source) - 1, 0)
        edge, top = middle + side * _RADIUS, middle + side * (_RADIUS + rise)
        spread = 10 if link.target == link.source else 0
        left, right = start - spread, end + spread
        path = f"M{left} {edge}C{left} {top} {right} {top} {right} {edge}"
        x, y = (start + end) // 2, top - side * 4 + (8 if side > 0 else 0)
        head = (end + spread, edge, 0, side)
    return f'<path d="{path}"/>{_head(*head)}{_text(x, y, link.label, most)}'


def _head(x: int, y: int, across: int, down: int) -> str:
    """Draw the head of an arrow that ends at a point and comes from a direction."""
    back_x, back_y = x + 8 * across, y + 8 * down
    sides = ((back_x + 4 * turn * down, back_y + 4 * turn * across) for turn in (1, -1))
    points = " ".join(f"{a},{b}" for a, b in ((x, y), *sides))
    return f'<polygon points="{points}" fill="currentColor"/>'


def _text(x: int, y: int, label: str, most: int) -> str:
    if not label:
        return ""
    short = label if len(label) <= most else label[: most - 1] + "…"
    whole = f"<title>{escape(label)}</title>" if short != label else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" stroke="none" fill="currentColor">'
        f"{whole}{escape(short)}</text>"
    )
