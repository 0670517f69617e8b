"""Evaluate edge predicates on events: ranks where they separate, masks where they do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns
from cepheid.events.decimals import Decimals
from cepheid.events.schema import ValueKind
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.vectors import Vector, both_valid
from cepheid.kernels.ranks import OPERATORS, place_segments, rank_segments
from cepheid.kinds.trend.look_back.common_order import in_one_order
from cepheid.kinds.trend.look_back.graph import Pair
from cepheid.kinds.trend.look_back.monotone_bounds import bounds_of
from cepheid.kinds.trend.look_back.operands import EXACT_DOUBLE, common_keys
from cepheid.language import tree
from cepheid.patterns.monotone import Monotone, monotone_forms
from cepheid.patterns.segments import take
from cepheid.plans.plan import EdgePredicate

MASK_CELLS = 1 << 20
"""Pairs of events for which non-separable predicates are evaluated at once."""


class Comparison(NamedTuple):
    """A separated predicate over all events: keys of both sides, and which of them are not NULL."""

    operator: str
    prev: tree.Expression
    prev_keys: NDArray[np.int64]
    prev_valid: NDArray[np.bool_] | None
    next_keys: NDArray[np.int64]
    next_valid: NDArray[np.bool_] | None


class Relation(NamedTuple):
    """All predicates between two variables."""

    prev: str
    next: str
    comparisons: tuple[Comparison, ...]
    rest: tuple[tree.Expression, ...]


class Ranks(NamedTuple):
    """The predicates of segments as ranges of ranks: (predicate, row); see ``kernels/ranks.py``."""

    rank: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    ranks: NDArray[np.int32]


def read_relations(edges: Sequence[EdgePredicate], columns: Columns) -> list[Relation]:
    """Evaluate both sides of all separated predicates, once for every event."""
    found: dict[tuple[str, str], list[EdgePredicate]] = {}
    for edge in edges:
        found.setdefault((edge.prev_variable, edge.next_variable), []).append(edge)
    known: dict[tree.Expression, Vector] = {}

    def vector(expression: tree.Expression) -> Vector:
        # The two sides of `S.price > NEXT(S).price` are one column.
        plain = tree.transform(expression, _without_anchor)
        assert isinstance(plain, tree.Expression)
        if plain not in known:
            known[plain] = evaluate_vector(plain, _lookup(columns), len(columns.batch))
        return known[plain]

    both: dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.int64]] | None] = {}

    def keys_of(left: Vector, right: Vector) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        # Several predicates compare the same columns.
        if (id(left), id(right)) not in both:
            both[id(left), id(right)] = common_keys(left, right)
        return both[id(left), id(right)]

    return [_relation(*names, predicates, vector, keys_of) for names, predicates in found.items()]


def _relation(
    prev: str, later: str, predicates: list[EdgePredicate], vector: Any, keys_of: Any
) -> Relation:
    comparisons: list[Comparison] = []
    rest: list[tree.Expression] = []
    for predicate in predicates:
        separation = predicate.separation
        if separation is None:
            ranges = _ranges(predicate, vector) if predicate.monotone else None
            comparisons += ranges or ()
            rest += [predicate.expression] if ranges is None else []
            continue
        left, right = vector(separation.prev), vector(separation.next)
        keys = keys_of(left, right)
        if keys is None:
            rest.append(predicate.expression)
            continue
        valid = [left.valid, right.valid]
        if ValueKind.UNKNOWN in (left.kind, right.kind):
            valid = [np.zeros(len(keys[0]), np.bool_)] * 2
        comparisons.append(
            Comparison(separation.operator, separation.prev, keys[0], valid[0], keys[1], valid[1])
        )
    return Relation(prev, later, in_one_order(comparisons), tuple(rest))


def _ranges(predicate: EdgePredicate, vector: Any) -> list[Comparison] | None:
    """Search the bounds of a condition with one range; None if values are not finite doubles."""
    found = []
    for form in monotone_forms(predicate.expression):
        sides = [vector(one) for one in (form.prev, *(s.other for s in form.steps), form.bound)]
        doubles = [known for known in map(_finite, sides) if known is not None]
        if len(doubles) < len(sides) or not _rounds_alike(form, sides, doubles):
            return None
        later, earlier = None, sides[0].valid
        for side in sides[1:]:
            later = both_valid(later, side.valid)
        for step, other in zip(form.steps, doubles[1:-1], strict=True):
            if step.operator == "/" and not step.turned:
                later = both_valid(later, other != 0.0)
        later = None if later is None else np.broadcast_to(later, doubles[0].shape)
        # Keys tell -0.0 from 0.0, which no condition does.
        prev, named = doubles[0] + 0.0, form.prev
        if form.is_reciprocal:
            earlier = both_valid(earlier, prev != 0.0)
            # Its order is not that of the value, so that the two have no ranks in common.
            named = tree.Binary(
                span=named.span, operator="/", left=form.steps[0].other, right=named
            )
        for operator, prev_keys, next_keys in bounds_of(form, prev, doubles[1:-1], doubles[-1]):
            found.append(Comparison(operator, named, prev_keys, earlier, next_keys, later))
    return found


def _rounds_alike(
    form: Monotone, sides: Sequence[Vector], doubles: Sequence[NDArray[np.float64]]
) -> bool:
    """Check whether doubles give what the condition does: whole numbers are not rounded there."""
    whole = sides[0].kind is ValueKind.INTEGER
    largest = [float(np.abs(known).max(initial=0.0)) for known in doubles]
    most = largest[0]
    for n, step in enumerate(form.steps, 1):
        if n > 1 and step.operator == "*":
            known = doubles[n] if sides[n].valid is None else doubles[n][sides[n].valid]
            if not known.all():
                return False  # Zero times what overflowed is no number.
        whole = whole and sides[n].kind is ValueKind.INTEGER and step.operator != "/"
        most = most * largest[n] if step.operator == "*" else most + largest[n]
        if whole and most > EXACT_DOUBLE:
            return False
    literals = (one for one in tree.walk(form.bound) if isinstance(one, tree.Literal))
    return not (whole and any(one.digits for one in literals))


def _finite(side: Vector) -> NDArray[np.float64] | None:
    """Return a column as finite doubles, NULL as 0; None if it has others, or other values."""
    if side.kind not in (ValueKind.DOUBLE, ValueKind.INTEGER) or isinstance(side.data, Decimals):
        return None
    numbers = side.numbers
    if numbers.dtype != np.float64:
        if len(numbers) and max(-int(numbers.min()), int(numbers.max())) > EXACT_DOUBLE:
            return None
        numbers = numbers.astype(np.float64)
    known = numbers if side.valid is None else np.where(side.valid, numbers, 0.0)
    return known if np.isfinite(known).all() else None


def _lookup(columns: Columns) -> Any:
    return lambda attribute: columns.vector(attribute.attribute.text)


def _without_anchor(node: tree.Node) -> tree.Node:
    """Remove event and variable from an attribute; its value is the column's."""
    if isinstance(node, tree.Attribute):
        nobody = tree.Name(span=node.span, text="")
        return tree.Attribute(span=node.span, variable=nobody, attribute=node.attribute)
    return node


def rank_relations(
    relations: Sequence[Relation],
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    bits: NDArray[np.int64],
    variables: Sequence[str],
) -> tuple[Ranks, list[Pair], list[bool]]:
    """Rank the rows of segments for every predicate; return pairs, the most selective one first."""
    found: list[tuple[NDArray[np.int32], ...]] = []
    outside: list[bool] = []
    pairs = []
    for relation in relations:
        places: dict[tree.Expression, int] = {}
        mine: list[int] = []
        earlier = bits >> variables.index(relation.prev) & 1 == 1
        later = earlier
        if relation.next != relation.prev:
            later = bits >> variables.index(relation.next) & 1 == 1
        for comparison in relation.comparisons:
            ranked = rank_rows(comparison, rows, segment_ptr, earlier, later)
            unequal = comparison.operator == "<>"
            known = places.get(comparison.prev)
            if known is not None and not unequal:
                # Two bounds of one value are one range.
                found[known] = _both(found[known], ranked)
                continue
            if not unequal:
                places[comparison.prev] = len(found)
            mine.append(len(found))
            found.append(ranked)
            outside.append(unequal)
        mine.sort(key=lambda n: _share(found[n], outside=outside[n]))
        pairs.append(Pair(relation.prev, relation.next, tuple(mine), bool(relation.rest)))
    none = np.zeros((0, len(rows)), np.int32)
    columns = [np.stack(column) for column in zip(*found, strict=True)] or [none] * 4
    return Ranks(*columns), pairs, outside


COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip


def rank_neighbours(
    relations: Sequence[Relation], rows: NDArray[np.int64]
) -> tuple[Ranks, list[Pair], list[bool]]:
    """Check whether each row may follow the previous one, in the form of ``rank_relations``.

    All rows have rank 0, and a row asks for this rank or none. So nothing is sorted; but only
    neighbours can be checked.
    """
    known: dict[int, NDArray[Any]] = {}

    def arranged(values: NDArray[Any]) -> NDArray[Any]:
        if id(values) not in known:
            known[id(values)] = take(values, rows)
        return known[id(values)]

    asked = [relation for relation in relations if relation.comparisons]
    last = np.zeros((len(asked), len(rows)), np.int32)
    pairs = []
    for relation in relations:
        number = asked.index(relation) if relation.comparisons else -1
        mine = (number,) if number >= 0 else ()
        pairs.append(Pair(relation.prev, relation.next, mine, bool(relation.rest)))
        if not mine or len(rows) < 2:
            continue
        held = np.ones(len(rows) - 1, np.bool_)
        for comparison in relation.comparisons:
            before, after = arranged(comparison.prev_keys), arranged(comparison.next_keys)
            held &= COMPARE[comparison.operator](before[:-1], after[1:])
            if comparison.prev_valid is not None:
                held &= arranged(comparison.prev_valid)[:-1]
            if comparison.next_valid is not None:
                held &= arranged(comparison.next_valid)[1:]
        last[number, 1:] = held
    none = np.zeros_like(last)
    return Ranks(none, none, last, none), pairs, [False] * len(asked)


def rank_rows(
    comparison: Comparison,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    earlier: NDArray[np.bool_],
    later: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], ...]:
    """Compute rank, first, last and ranks of the rows; see ``kernels/ranks.py``.

    ``earlier`` and ``later`` mark the rows that may be the one or the other; pass one array
    twice if both are the same.
    """
    ranked = tuple(np.empty(len(rows), np.int32) for _ in range(4))
    sides = _sides(comparison, rows, segment_ptr, earlier, later, both=True)[:-1]
    rank_segments(segment_ptr, *sides, *ranked)
    return ranked


def place_rows(
    comparison: Comparison,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    earlier: NDArray[np.bool_],
    later: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], ...]:
    """Compute place and upto of the rows, for every comparison but <>; see ``kernels/ranks.py``."""
    placed = np.empty((2, len(rows)), np.int32)
    kernel: Any = place_segments  # The type checker cannot count unpacked arguments.
    kernel(segment_ptr, *_sides(comparison, rows, segment_ptr, earlier, later), placed)
    return placed[0], placed[1]


def _sides(
    comparison: Comparison,
    rows: NDArray[np.int64],
    segment_ptr: NDArray[np.int64],
    earlier: NDArray[np.bool_],
    later: NDArray[np.bool_],
    *,
    both: bool = False,
) -> tuple[Any, ...]:
    """Collect keys and validity of both sides, the operator, buffers, and whether both agree."""
    prev = earlier if comparison.prev_valid is None else earlier & comparison.prev_valid[rows]
    same = not both and comparison.prev_keys is comparison.next_keys and earlier is later
    prev_keys = take(comparison.prev_keys, rows)
    operator = OPERATORS[comparison.operator]
    longest = int(np.diff(segment_ptr).max()) if len(segment_ptr) > 1 else 0
    sides = 1 if same else 2
    room = (
        np.empty((sides, longest), np.int64),
        np.empty((sides, longest), np.int32),
        np.empty((1 + sides, longest), np.uint64),
    )
    if same:
        return prev_keys, prev, prev_keys, prev, operator, *room, True
    nxt = later if comparison.next_valid is None else later & comparison.next_valid[rows]
    return prev_keys, prev, take(comparison.next_keys, rows), nxt, operator, *room, False


def _both(
    one: tuple[NDArray[np.int32], ...], two: tuple[NDArray[np.int32], ...]
) -> tuple[NDArray[np.int32], ...]:
    none = (one[1] < 0) | (two[1] < 0)
    first = np.where(none, -1, np.maximum(one[1], two[1])).astype(np.int32)
    return one[0], first, np.minimum(one[2], two[2]), one[3]


def _share(ranked: tuple[NDArray[np.int32], ...], *, outside: bool) -> float:
    """Measure the selectivity of a predicate: the share of ranks that it accepts."""
    _, first, last, ranks = ranked
    asked = first >= 0
    total = float(ranks[asked].sum())
    inside = float(np.maximum(last[asked] - first[asked], 0).sum())
    if not total:
        return 0.0
    return 1 - inside / total if outside else inside / total


def mask_block(
    relation: Relation,
    columns: Columns,
    earlier: NDArray[np.int64],
    later: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Evaluate the predicates that do not separate: (later events, earlier events)."""
    shape = (len(later), len(earlier))
    if not len(earlier) or not len(later):
        return np.zeros(shape, np.bool_)
    prev, nxt = np.tile(earlier, len(later)), np.repeat(later, len(earlier))

    def lookup(attribute: tree.Attribute) -> Vector:
        rows = nxt if attribute.anchor is tree.Anchor.NEXT else prev
        return _take(columns.vector(attribute.attribute.text), rows)

    held = np.ones(len(prev), np.bool_)
    for expression in relation.rest:
        held &= true_mask(expression, lookup, len(prev))
    return held.reshape(shape)


def _take(vector: Vector, rows: NDArray[np.int64]) -> Vector:
    data: Any = vector.data
    taken = data[rows] if isinstance(data, np.ndarray) else data.take(pa.array(rows))
    return Vector(taken, None if vector.valid is None else vector.valid[rows], vector.kind)
