"""Choose the rules that are worth showing among the candidates, the best ones first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.discovery.candidates import Candidates, is_frequent
from cepheid.discovery.forms import FORMS, WEAKER, expected
from cepheid.discovery.ranking import Groups, chi_square

NEARLY_ALL = 0.95
"""The share of the cases with a sequence that a duration must keep."""

_SYMMETRIC = ("coexistence", "non_coexistence")
_STRENGTH = {one.name: place for place, one in enumerate(FORMS)}

Row = tuple[Candidates, int]
"""One candidate: its table, and its row there."""


class Bounds(NamedTuple):
    """The thresholds of a rule: a share of the cases, and of these the share in which it holds."""

    support: float
    confidence: float
    top: int


class Habits(NamedTuple):
    """The cases as a whole: how many have each type, and how many events they have."""

    cases: int
    has: NDArray[np.float64]
    events: float


def common(found: Iterable[Candidates], habits: Habits, bounds: Bounds) -> list[Row]:
    """Choose what holds often: forms, then deadlines, then sequences, some of each.

    Rules come by the number of cases in which they hold beyond those that chance would give.
    """
    tables = list(found)
    groups, top = Groups(habits.cases, 0), bounds.top
    forms = [one for one in tables if one.form in _STRENGTH]
    waits = [one for one in tables if one.form == "deadline"]
    chains = [one for one in tables if one.form == "sequence"]
    return [
        *_forms(forms, habits, bounds)[:top],
        *_deadlines(waits, groups, bounds)[:top],
        *_sequences(chains, habits, bounds.support)[:top],
    ]


def _forms(tables: list[Candidates], habits: Habits, bounds: Bounds) -> list[Row]:
    groups = Groups(habits.cases, 0)
    share: dict[tuple[str, tuple[int, ...]], float] = {}
    rows: list[Row] = []
    for table in tables:
        kept = is_frequent(table.stake, table.stake * 0, groups, bounds.support)
        kept &= table.holds >= bounds.confidence * table.stake
        if table.form in _SYMMETRIC:
            kept &= table.types[:, 0] < table.types[:, 1]
        for row in np.flatnonzero(kept).tolist():
            rows.append((table, row))
            types = tuple(table.types[row].tolist())
            share[table.form, types] = float(table.holds[row] / table.stake[row])
    said = {
        (weaker, types): held
        for (form, types), held in share.items()
        for weaker in _all_weaker(form)
    }
    chosen = []
    for table, row in rows:
        key = (table.form, tuple(table.types[row].tolist()))
        if said.get(key, -1.0) < share[key]:
            has = tuple(habits.has[table.types[row]].tolist())
            beyond = share[key] - expected(table.form, has, habits.events)
            if beyond > 0:
                chosen.append((table, row, beyond * table.stake[row]))
    chosen.sort(key=lambda one: (-one[2], -_STRENGTH[one[0].form]))
    return [(table, row) for table, row, _ in chosen]


def _all_weaker(form: str) -> set[str]:
    direct = WEAKER.get(form, ())
    return set(direct).union(*(_all_weaker(one) for one in direct))


def _deadlines(tables: list[Candidates], groups: Groups, bounds: Bounds) -> list[Row]:
    """Choose for each pair of types the shortest duration that is nearly always kept."""
    best: dict[tuple[int, ...], Row] = {}
    for table in tables:  # From the shortest duration on.
        kept = is_frequent(table.stake, table.stake * 0, groups, bounds.support)
        kept &= table.holds >= bounds.confidence * table.stake
        for row in np.flatnonzero(kept).tolist():
            best.setdefault(tuple(table.types[row].tolist()), (table, row))
    return sorted(best.values(), key=lambda one: (-one[0].stake[one[1]], one[0].step[one[1]]))


def _sequences(tables: list[Candidates], habits: Habits, support: float) -> list[Row]:
    """Choose frequent sequences without longer ones that as many cases have."""
    groups = Groups(habits.cases, 0)
    whole = [one for one in tables if (one.step < 0).all()]
    cases: dict[tuple[int, ...], int] = {}
    for table in whole:
        frequent = is_frequent(table.holds, table.labelled, groups, support)
        for row in np.flatnonzero(frequent).tolist():
            cases[tuple(table.types[row].tolist())] = int(table.holds[row])
    said = {
        part
        for types, count in cases.items()
        for part in combinations(types, len(types) - 1)
        if cases.get(part) == count
    }
    best: dict[tuple[int, ...], Row] = {}
    for table in sorted(tables, key=lambda one: _late(one.step)):
        for row, types in enumerate(map(tuple, table.types.tolist())):
            is_new = types in cases and types not in said and types not in best
            if is_new and table.holds[row] >= NEARLY_ALL * cases[types]:
                best[types] = (table, row)

    def beyond(one: Row) -> float:
        types = one[0].types[one[1]]
        by_chance = float(np.prod(habits.has[types])) / math.factorial(len(types))
        return float(one[0].holds[one[1]]) - habits.cases * by_chance

    return sorted(best.values(), key=beyond, reverse=True)


def _late(step: NDArray[np.int64]) -> int:
    """Return the place of a duration, with none at the end."""
    first = int(step[0]) if len(step) else 0
    return first if first >= 0 else len(_STRENGTH) * 1_000


def telling(found: Iterable[Candidates], groups: Groups, support: float, top: int) -> list[Row]:
    """Choose the rules whose reports tell cases with the label from others best.

    Rules that report as many cases, and as many with the label, as a better one are left out: they
    are the same rule in other words. So is a sequence that tells no more than a part of it. Rules
    that report the label less often than chance are left out, too.
    """
    rows: list[tuple[float, int, Row]] = []
    score: dict[tuple[int, ...], float] = {}
    for table in found:
        chi = chi_square(table.reported, table.labelled, groups)
        kept = is_frequent(table.reported, table.labelled, groups, support) & (chi > 0)
        kept &= table.labelled * groups.cases > table.reported * groups.labelled
        if table.form != "sequence":
            kept &= table.reported < table.holds  # Else it is no rule that the others keep.
        if table.form == "sequence":
            for row in np.flatnonzero(kept).tolist():
                types = tuple(table.types[row].tolist())
                score[types] = max(score.get(types, 0.0), float(chi[row]))
        strength = _STRENGTH.get(table.form, -1)  # Equals: first those that can be watched.
        # Many more than are shown, because equal ones are left out.
        best = np.flatnonzero(kept)[np.argsort(-chi[kept], kind="stable")[: 20 * top]]
        rows += [(float(chi[row]), strength, (table, int(row))) for row in best]
    rows.sort(key=lambda one: (-one[0], one[1], len(one[2][0].types[0])))
    chosen: list[Row] = []
    seen: set[tuple[int, int]] = set()
    kinds: set[tuple[str, tuple[int, ...]]] = set()
    for chi_of, _, (table, row) in rows:
        types = tuple(table.types[row].tolist())
        counts = (int(table.reported[row]), int(table.labelled[row]))
        parts = combinations(types, len(types) - 1) if table.form == "sequence" else ()
        if counts in seen or (table.form, types) in kinds:
            continue
        if any(score.get(part, 0.0) >= chi_of for part in parts):
            continue
        seen.add(counts)
        kinds.add((table.form, types))
        chosen.append((table, row))
        if len(chosen) == top:
            break
    return chosen
