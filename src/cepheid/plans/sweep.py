"""The plan of a sweep: a query for every combination of values (§16), and how these are answered.

in one pass     events for which no value changes anything collapse into one matrix (kinds/sweep)
a query each    every value has a plan of its own; all run together, as a workload
after the run   HAVING filters rows, so one run serves all values
"""

from __future__ import annotations

from enum import StrEnum
from math import prod

import msgspec

from cepheid.language import tree
from cepheid.plans.plan import FunnelPlan, Plan, TrendPlan


class Way(StrEnum):
    """The way to answer the values of a parameter."""

    ONE_PASS = "in one pass"
    EACH = "a query each"
    AFTER = "after the run"


class ValuesKind(StrEnum):
    """The type of a parameter's column (§16.2)."""

    INTEGER = "integer"
    DOUBLE = "double"
    TEXT = "text"
    DURATION = "duration"


class Parameter(msgspec.Struct, frozen=True):
    """A SWEEP: its column, its values in order (durations in microseconds), and its way.

    ``digits`` are numbers with a point as they were written, where doubles have not all of them.
    ``place`` is where the SWEEP begins in the text: so its constant is found again in the plan.
    """

    name: str
    kind: ValuesKind
    values: tuple[int | float | str, ...]
    way: Way
    reason: str
    place: int
    digits: tuple[str, ...] = ()


class Threshold(msgspec.Struct, frozen=True):
    """A condition ``value operator parameter`` on the events of a variable, or of all variables.

    ``local`` is its number among the local predicates of the plans.
    """

    parameter: int
    local: int
    value: tree.Expression
    operator: str
    variable: str | None


class SweepPlan(Plan, frozen=True, kw_only=True, tag="sweep"):
    """The plan of a query with SWEEP.

    Attributes
    ----------
    plans
        A plan for every combination of the parameters with a query each, the first value in the
        places of all others; without any, one. HAVING is left out if it has a parameter.
    thresholds
        The conditions that are answered in one pass.
    having
        HAVING over the columns of the rows, if it has a parameter; ``hidden`` are columns that only
        HAVING reads.
    """

    parameters: tuple[Parameter, ...]
    plans: tuple[TrendPlan | FunnelPlan, ...]
    thresholds: tuple[Threshold, ...] = ()
    having: tree.Expression | None = None
    hidden: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """Name the kind of query, for messages."""
        return "a sweep"

    @property
    def orders_ties(self) -> bool:
        """Check whether events of equal time are ordered (§1.3)."""
        return self.plans[0].orders_ties

    @property
    def combinations(self) -> int:
        """Count the combinations of values."""
        return prod(len(parameter.values) for parameter in self.parameters)
