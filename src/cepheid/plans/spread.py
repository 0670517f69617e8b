"""The plan of a variance or standard deviation over all matches (§5.7)."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from cepheid.plans.survey import MatchValue

EACH = "each"
"""In place of a kind of value: an attribute of every event of a variable, and none of matches."""


class SpreadFunction(StrEnum):
    """The functions, as columns call them."""

    VAR = "VAR"
    VAR_POP = "VAR_POP"
    STDDEV = "STDDEV"
    STDDEV_POP = "STDDEV_POP"

    @property
    def is_sample(self) -> bool:
        """Check whether the values count as a sample: n - 1 divides."""
        return self in (SpreadFunction.VAR, SpreadFunction.STDDEV)

    @property
    def is_root(self) -> bool:
        """Check whether it is the root of a variance."""
        return self in (SpreadFunction.STDDEV, SpreadFunction.STDDEV_POP)


class Spread(msgspec.Struct, frozen=True):
    """One such number; ``name`` is its text, which no result column can have."""

    name: str
    function: SpreadFunction
    value: MatchValue

    @property
    def of_matches(self) -> bool:
        """Check whether every match has one value; else every event of it has one."""
        return self.value.what != EACH

    @property
    def column(self) -> str:
        """Build the name of its column."""
        value = self.value
        names = value.name if self.of_matches else f"{value.variable}_{value.attribute}"
        return f"{self.function.value.lower()}_{names}"
