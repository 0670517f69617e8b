"""The forms of Declare: what each says of a case, as two row patterns, and how it is counted.

A form is *at stake* in a case that fits one of its two patterns: ``holds`` where the case obeys
it, ``broken`` where it does not. Patterns are written over the letters A and B, the types of the
form, and O, any other event; X is any event at all. So one table says what is counted, what the
queries are, and what the tests compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.declare import Facts

Counts = NDArray[np.int64]

_ALTERNATE = 1 / 3
"""The share of orders of A, A and B, or of A, B and B, in which B stands between or behind."""


class Form(NamedTuple):
    """A form: its name and number of types, its patterns, and its counts of cases.

    ``counts`` returns in how many cases it is at stake, and in how many it holds; for two types by
    pairs of them. ``says`` is a sentence with A and B in it.
    """

    name: str
    types: int
    says: str
    holds: tuple[str, ...]
    broken: tuple[str, ...]
    counts: Callable[[Facts], tuple[Counts, Counts]]

    @property
    def opposite(self) -> Form:
        """The form that holds where this one is broken."""
        return self._replace(
            holds=self.broken, broken=self.holds, counts=lambda facts: _opposite(self.counts(facts))
        )


def _opposite(counted: tuple[Counts, Counts]) -> tuple[Counts, Counts]:
    stake, holds = counted
    return stake, stake - holds


def _all(facts: Facts) -> Counts:
    return np.full(len(facts.has), facts.cases, np.int64)


def _first(facts: Facts) -> Counts:
    """Count the cases with the first type, for every pair."""
    return np.broadcast_to(facts.has[:, None], facts.both.shape)


def _second(facts: Facts) -> Counts:
    return np.broadcast_to(facts.has[None, :], facts.both.shape)


def _either(facts: Facts) -> Counts:
    return _first(facts) + _second(facts) - facts.both


_EXISTENCE = Form(
    "existence", 1, "A occurs",
    ("O* A X*",), ("O+",), lambda facts: (_all(facts), facts.has),
)  # fmt: skip
_SUCCESSION = Form(
    "succession", 2, "A is followed by B, and B is preceded by A",
    ("O* A X* B O*",), ("O* B X*", "X* A O*"),
    lambda facts: (_either(facts), facts.succession),
)  # fmt: skip
_CHAIN_SUCCESSION = Form(
    "chain_succession", 2, "A is directly followed by B, and B directly preceded by A",
    ("O* (A B O*)+",), ("(X* (B | O))? B X*", "X* A ((A | O) X*)?"),
    lambda facts: (_either(facts), facts.chain_succession),
)  # fmt: skip
_COEXISTENCE = Form(
    "coexistence", 2, "A and B occur together",
    ("O* A (A | O)* B X*", "O* B (B | O)* A X*"), ("O* A (A | O)*", "O* B (B | O)*"),
    lambda facts: (_either(facts), facts.both),
)  # fmt: skip

FORMS = (
    _EXISTENCE,
    _EXISTENCE.opposite._replace(name="absence", says="A does not occur"),
    Form(
        "exactly_one", 1, "A occurs exactly once",
        ("O* A O*",), ("O+", "O* A O* A X*"), lambda facts: (_all(facts), facts.once),
    ),
    Form(
        "init", 1, "A is first",
        ("A X*",), ("O X*",), lambda facts: (_all(facts), facts.first),
    ),
    Form(
        "responded_existence", 2, "where A occurs, B occurs, too",
        ("O* A (A | O)* B X*", "O* B (B | O)* A X*"), ("O* A (A | O)*",),
        lambda facts: (_first(facts), facts.both),
    ),
    Form(
        "response", 2, "A is followed by B",
        ("X* A O* B (B | O)*",), ("X* A O*",), lambda facts: (_first(facts), facts.response),
    ),
    Form(
        "precedence", 2, "B is preceded by A",
        ("O* A (A | O)* B X*",), ("O* B X*",), lambda facts: (_second(facts), facts.precedence),
    ),
    _SUCCESSION,
    Form(
        "alternate_response", 2, "A is followed by B before the next A",
        ("(B | O)* (A O* B (B | O)*)+",), ("X* A O* (A X*)?",),
        lambda facts: (_first(facts), facts.alternate_response),
    ),
    Form(
        "alternate_precedence", 2, "B is preceded by A after the last B",
        ("((A | O)* A O* B)+ (A | O)*",), ("(X* B)? O* B X*",),
        lambda facts: (_second(facts), facts.alternate_precedence),
    ),
    Form(
        "alternate_succession", 2, "A and B alternate, from A to B",
        ("O* (A O* B O*)+",), ("O* B X*", "X* A O*", "X* A O* A X*", "X* B O* B X*"),
        lambda facts: (_either(facts), facts.alternate_succession),
    ),
    Form(
        "chain_response", 2, "A is directly followed by B",
        ("(B | O)* (A B (B | O)*)+",), ("X* A ((A | O) X*)?",),
        lambda facts: (_first(facts), facts.chain_response),
    ),
    Form(
        "chain_precedence", 2, "B is directly preceded by A",
        ("((A | O)* A B)+ (A | O)*",), ("(X* (B | O))? B X*",),
        lambda facts: (_second(facts), facts.chain_precedence),
    ),
    _CHAIN_SUCCESSION,
    _COEXISTENCE,
    _COEXISTENCE.opposite._replace(
        name="non_coexistence", says="A and B do not occur together"
    ),
    _SUCCESSION.opposite._replace(
        name="non_succession", says="it is not so that A is followed by B and B preceded by A"
    ),
    _CHAIN_SUCCESSION.opposite._replace(
        name="non_chain_succession",
        says="it is not so that A is directly followed by B and B directly preceded by A",
    ),
)  # fmt: skip
"""All forms; those with negations are the opposites of others, as in pm4py."""

BY_NAME = {one.name: one for one in FORMS}


def expected(form: str, has: tuple[float, ...], events: float) -> float:
    """Return the share of cases in which a rule would hold if types were spread by chance.

    Parameters
    ----------
    form
        The name of a form.
    has
        The shares of the cases that have each of its types.
    events
        The mean number of events of a case.

    Examples
    --------
    >>> expected("response", (0.5, 0.5), 10.0), expected("non_coexistence", (0.5, 0.5), 10.0)
    (0.25, 0.6666666666666667)
    """
    if len(has) == 1:
        return 1.0 if form == "absence" else 0.0
    first, second = has
    together = first * second
    either = first + second - together
    negative = form.startswith("non_")
    plain = form.removeprefix("non_")
    chance = {"chain": 1 / max(events, 1.0), "alternate": _ALTERNATE}.get(plain.split("_")[0], 0.5)
    if plain in ("coexistence", "responded_existence"):
        chance = 1.0
    if plain.endswith(("succession", "coexistence")):
        share = together / either if either else 0.0
    else:
        share = first if plain.endswith("precedence") else second
    return 1 - chance * share if negative else chance * share


WEAKER = {
    "alternate_response": ("response",),
    "alternate_precedence": ("precedence",),
    "chain_response": ("alternate_response", "response"),
    "chain_precedence": ("alternate_precedence", "precedence"),
    "succession": ("response", "precedence", "coexistence"),
    "alternate_succession": ("succession", "alternate_response", "alternate_precedence"),
    "chain_succession": ("alternate_succession", "chain_response", "chain_precedence"),
    "response": ("responded_existence",),
    "exactly_one": ("existence",),
    "init": ("existence",),
}
"""Weaker forms that a form implies: their rules add nothing where it holds as often."""
