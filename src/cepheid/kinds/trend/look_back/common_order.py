"""Put several bounds of one event into one order: `a.x - 3 < n AND n < a.x + 3` is a range of a.x.

The sides of the earlier event are other expressions, so each would have ranks of its own. But where
they rise and fall together over all events, one order sorts both, and the events that both
accept are a range of it. The values decide that, not the expressions; so rounding plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cepheid.events.comparisons import MIRRORED

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.relations import Comparison

Keys = NDArray[np.int64]


BOUNDS = ("<", "<=", ">", ">=")


def in_one_order(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Rewrite comparisons whose earlier sides have a common order as bounds of one of them.

    The result accepts the same pairs of events. ``=`` and ``<>`` stay as they are.
    """
    found = list(comparisons)
    bounds = [n for n, one in enumerate(found) if one.operator in BOUNDS]
    if len({found[n].prev for n in bounds}) < 2:
        return tuple(found)
    groups: list[dict[int, Comparison]] = []
    for n in bounds:
        for group in groups:
            fitting = _fitting(group, found[n])
            if fitting is not None:
                group[n] = fitting
                break
        else:
            groups.append({n: found[n]})
    for group in groups:
        order = _order(list(group.values()))
        if len({one.prev for one in group.values()}) < 2 or order is None:
            continue
        named = next(iter(group.values()))
        ranks = np.zeros(len(named.prev_keys), np.int64)
        ranks[order] = np.arange(len(order))
        for n, one in group.items():
            found[n] = _bounded(one, ranks, one.prev_keys[order], named)
    return tuple(found)


def _fitting(group: dict[int, Comparison], one: Comparison) -> Comparison | None:
    """Return a comparison, as it is or reversed, that the order of a group sorts, too."""
    others = list(group.values())
    if not all(_same(one.prev_valid, other.prev_valid) for other in others):
        return None
    ways = (one, _turned(one))
    return next((way for way in ways if _order([*others, way]) is not None), None)


def _order(comparisons: list[Comparison]) -> Keys | None:
    """Sort the events that have a value by all keys; None if one key is not sorted by that."""
    order = np.lexsort([one.prev_keys for one in reversed(comparisons)])
    valid = comparisons[0].prev_valid
    if valid is not None:
        order = order[valid[order]]
    for one in comparisons[1:]:
        keys = one.prev_keys[order]
        if (keys[1:] < keys[:-1]).any():
            return None
    return order


def _same(one: NDArray[np.bool_] | None, two: NDArray[np.bool_] | None) -> bool:
    if one is None or two is None:
        return one is two
    return bool(np.array_equal(one, two))


def _turned(comparison: Comparison) -> Comparison:
    """Reverse the order of both sides."""
    return comparison._replace(
        operator=MIRRORED[comparison.operator],
        prev_keys=~comparison.prev_keys,
        next_keys=~comparison.next_keys,
    )


def _bounded(comparison: Comparison, ranks: Keys, keys: Keys, named: Comparison) -> Comparison:
    """Compare ranks of the earlier event with the number of keys below, or up to, a bound."""
    operator = comparison.operator
    up_to = operator in ("<=", ">")
    bound = np.searchsorted(keys, comparison.next_keys, side="right" if up_to else "left")
    return comparison._replace(
        operator="<" if operator in ("<", "<=") else ">=",
        prev=named.prev,
        prev_keys=ranks,
        next_keys=bound.astype(np.int64),
    )
