"""Row patterns in windows by definition (§11.6 to §11.9): slow, obvious, and on its own.

A match of a window sees the rows of its frame and no others, so the frame is cut out of the
partition, and the definition of a match looks at nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.row_pattern.reference import (
    Label,
    Row,
    Scene,
    aggregated,
    next_start,
    sequences,
    sorted_rows,
    value,
    value_at,
)

from cepheid.kinds.row_pattern import tree

Found = tuple[int, list[Row], int, tuple[Label, ...]]
"""The row that has a match, its frame, and the match with its place in there."""


def over_window(clause: tree.Clause, table: Sequence[Row]) -> list[list[Any]]:
    """Return what is called over a window, for every row of the input, partition by partition."""
    keys = [column.name for column in clause.partition_by]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = []
    for key in sorted(groups, key=lambda k: tuple((v is not None, v) for v in k)):
        found += _partition(clause, sorted_rows(clause, groups[key]))
    return found


def _partition(clause: tree.Clause, rows: Sequence[Row]) -> list[list[Any]]:
    assert clause.frame is not None
    unions = {s.name: frozenset(v.name for v in s.variables) for s in clause.subsets}
    measures = {m.name.lower(): m.expression for m in clause.measures}
    output, following = [], 0
    for place in range(len(rows)):
        end = len(rows) if clause.frame.end is None else place + clause.frame.end + 1
        frame = rows[place:end]
        start, match = 0, None
        for start in range(len(frame) if clause.frame.seek else 1):
            if place < following:
                break
            match = next(sequences(clause, clause.pattern, frame, start, (), 0), None)
            if match is not None:
                break
        labels = [label for label, _ in match or ()]
        scene = Scene(frame, start, labels, len(labels) - 1, 0, unions)
        output.append(
            [
                (None if match is None else value(measures[node.name.lower()], scene))
                if isinstance(node, tree.Column)
                else _function(node, clause, rows, place, scene)
                for node in (call.expression for call in clause.calls)
            ]
        )
        if match is not None:
            to_next = clause.skip.mode == "to_next_row" or not labels
            following = place + 1 if to_next else place + next_start(clause, start, labels, unions)
    return output


def _function(
    node: tree.Expression, clause: tree.Clause, rows: Sequence[Row], place: int, scene: Scene
) -> Any:
    """Return a function over the rows of a match, or about the place of a row in its partition."""
    assert isinstance(node, tree.Call)
    length = len(scene.labels)
    if node.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"):
        at = {"FIRST_VALUE": 0, "LAST_VALUE": length - 1}.get(node.function)
        if at is None:
            nth = node.arguments[1]
            assert isinstance(nth, tree.Literal)
            assert isinstance(nth.value, int)
            at = nth.value - 1
        row = scene.start + at if 0 <= at < length else None
        return value_at(node.arguments[0], scene, row)
    keys = [tuple(row[key.column.name] for key in clause.order_by) for row in rows]
    size, first = len(rows), keys.index(keys[place])
    peers = keys.count(keys[place])
    match node.function:
        case "ROW_NUMBER":
            return place + 1
        case "RANK":
            return first + 1
        case "DENSE_RANK":
            return len(set(keys[: first + 1]))
        case "PERCENT_RANK":
            return first / (size - 1) if size > 1 else 0.0
        case "CUME_DIST":
            return (first + peers) / size
        case "NTILE":
            count = node.arguments[0]
            assert isinstance(count, tree.Literal)
            assert isinstance(count.value, int)
            sizes = [size // count.value + (i < size % count.value) for i in range(count.value)]
            return next(i + 1 for i in range(count.value) if place < sum(sizes[: i + 1]))
    return aggregated(node, scene)
