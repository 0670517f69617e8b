"""The reference implementation of variances: all matches of a cell in, a number out (§5.7)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cepheid.language import tree
from cepheid.testing.oracle_matches import Event, Match
from cepheid.testing.oracle_survey import name_of_value, worth_of

SPREADS = {
    "VAR": "VAR",
    "VARIANCE": "VAR",
    "VAR_SAMP": "VAR",
    "VAR_POP": "VAR_POP",
    "STDDEV": "STDDEV",
    "STDDEV_SAMP": "STDDEV",
    "STDDEV_POP": "STDDEV_POP",
}
"""The functions, and what each is called in columns."""


def is_spread(node: object) -> bool:
    """Check whether an expression is a variance or a standard deviation."""
    return isinstance(node, tree.Call) and node.function in SPREADS


def name_of_spread(call: tree.Call) -> str:
    """Name the column of a variance."""
    (value,) = call.arguments
    if isinstance(value, tree.Attribute):
        names = f"{value.variable.text}_{value.attribute.text}"
    else:
        names = name_of_value(value)
    return f"{SPREADS[call.function].lower()}_{names}"


def spread_of(
    call: tree.Call, found: Sequence[Match], events: Sequence[Event], times: Sequence[int]
) -> float | None:
    """Compute a variance or a standard deviation over all matches."""
    (value,) = call.arguments
    if isinstance(value, tree.Attribute):
        variable, attribute = value.variable.text, value.attribute.text
        bound = [events[i].get(attribute) for m in found for name, i in m if name == variable]
        values = [float(x) for x in bound if isinstance(x, int | float)]
    else:
        worth = worth_of(value, events, times)
        values = [worth(m) for m in found]
    function = SPREADS[call.function]
    divisor = len(values) - (not function.endswith("POP"))
    if divisor < 1:
        return None
    mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
    variance = math.fsum((x - mean) ** 2 for x in values) / divisor
    return math.sqrt(variance) if function.startswith("STDDEV") else variance
