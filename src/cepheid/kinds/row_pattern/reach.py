"""A bound clause in, how far it reaches out: the longest match, and rows beside it that it sees.

A stream keeps as many rows as that: those before a match that PREV reaches, those of the longest
match, and those behind it that NEXT reaches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.plan import MatchPlan


class Reach(NamedTuple):
    """The distance over which a clause looks at rows.

    Attributes
    ----------
    back
        Rows before the first row of a match that conditions and measures may see.
    ahead
        Rows behind a row that its condition may see.
    beyond
        Rows behind the last row of a match that measures may see.
    longest
        Rows of the longest match; None if there is no bound but WITHIN.
    """

    back: int
    ahead: int
    beyond: int
    longest: int | None


class _Places(NamedTuple):
    """The fewest rows of a match, and the fewest that each variable has on one side of it."""

    least: int
    beside: dict[str, int]

    def of(self, variables: frozenset[str]) -> int:
        """Return the fewest rows on that side of any of some variables."""
        return min((self.beside.get(name, 0) for name in variables), default=0)


def reach_of(plan: MatchPlan) -> Reach:
    """Compute how far a clause reaches."""
    before = _places(plan.pattern, backwards=False)
    after = _places(plan.pattern, backwards=True)
    back, ahead, beyond = [0], [0], [0]
    for variable, condition in plan.conditions.items():
        for at in _shifted(condition):
            back.append(-at.shift - _rows_before(at, before, before.beside.get(variable, 0)))
            own = at.variables is None and not at.from_first
            ahead.append(at.shift - (at.offset if own else 0))
    for _, measure in plan.measures:
        for at in _shifted(measure):
            # The current row is the last one, or with ALL ROWS any of them.
            current = before.least - 1 if plan.one_row or at.final else 0
            back.append(-at.shift - _rows_before(at, before, current))
            beyond.append(at.shift - _rows_after(at, after, whole=plan.one_row or at.final))
    return Reach(max(back), max(ahead), max(beyond), longest_match(plan.pattern))


def sight_of(plan: MatchPlan) -> int:
    """Count the rows before a match that its conditions can read."""
    return reach_of(msgspec.structs.replace(plan, measures=())).back


def sees_outside(plan: MatchPlan) -> bool:
    """Check whether conditions of a window may ask for rows outside of its frame."""
    if plan.frame is None:
        return False
    reach = reach_of(msgspec.structs.replace(plan, measures=()))
    return reach.back > 0 or (plan.frame.end is not None and reach.ahead > 0)


def describe_window(plan: MatchPlan) -> list[str]:
    """Tell in words where matches of a window begin and what they see; nothing of a clause."""
    if plan.frame is None:
        return []
    later = ", or the next row of its frame where one begins" if plan.frame.seek else ""
    count = plan.frame.end
    rows = "all rows" if count is None else f"{count} row{'s' * (count != 1)}"
    told = [f"a window: a match begins at the row{later}", f"it sees the row and {rows} behind it"]
    if sees_outside(plan):
        told.append("PREV or NEXT may leave the frame, so they are looked at in the search")
    return told


def _shifted(node: tree.Expression) -> Iterator[tree.Navigation]:
    if isinstance(node, tree.Cell) and node.navigation.shift:
        yield node.navigation
    for child in tree.children(node):
        yield from _shifted(child)


def _rows_before(at: tree.Navigation, before: _Places, current: int) -> int:
    """Return the fewest rows of the match before the row that FIRST or LAST finds."""
    if at.variables is None:
        return at.offset if at.from_first else max(current - at.offset, 0)
    return before.of(at.variables) + (at.offset if at.from_first else 0)


def _rows_after(at: tree.Navigation, after: _Places, *, whole: bool) -> int:
    """Return the fewest rows of the match behind the row that FIRST or LAST finds."""
    if at.variables is None:
        if at.from_first:
            return max(after.least - 1 - at.offset, 0)
        return at.offset if whole else 0
    return after.of(at.variables) + (0 if at.from_first or not whole else at.offset)


def _places(pattern: tree.Pattern, *, backwards: bool) -> _Places:
    def inner(parts: Sequence[tree.Pattern]) -> list[_Places]:
        return [_places(part, backwards=backwards) for part in parts]

    match pattern:
        case tree.Variable(name=name):
            return _Places(1, {name: 0})
        case tree.Sequence(parts=parts):
            return _follow(inner(parts[::-1] if backwards else parts))
        case tree.Alternation(parts=parts):
            found = inner(parts)
            return _Places(min(part.least for part in found), _fewest(found))
        case tree.Permutation(parts=parts):
            found = inner(parts)
            return _Places(sum(part.least for part in found), _fewest(found))
        case tree.Exclusion(part=part):
            return _places(part, backwards=backwards)
        case tree.Quantified(part=part, least=least):
            once = _places(part, backwards=backwards)
            return _Places(least * once.least, once.beside)
    return _Places(0, {})


def _follow(parts: list[_Places]) -> _Places:
    beside: dict[str, int] = {}
    rows = 0
    for part in parts:
        for name, count in part.beside.items():
            beside[name] = min(beside.get(name, rows + count), rows + count)
        rows += part.least
    return _Places(rows, beside)


def _fewest(parts: list[_Places]) -> dict[str, int]:
    names = {name for part in parts for name in part.beside}
    return {n: min(part.beside[n] for part in parts if n in part.beside) for n in names}


def longest_match(pattern: tree.Pattern) -> int | None:
    """Return the number of rows of the longest match, or None if there is no bound.

    Examples
    --------
    >>> from cepheid.kinds.row_pattern.parser import parse_clause_text
    >>> texts = ("A{1,5} (B | C D)?", "A B+ C", "()*")
    >>> clauses = [parse_clause_text(f"MATCH_RECOGNIZE (PATTERN ({text}))") for text in texts]
    >>> [longest_match(clause.pattern) for clause in clauses]
    [7, None, 0]
    """
    match pattern:
        case tree.Variable():
            return 1
        case tree.Sequence(parts=parts) | tree.Permutation(parts=parts):
            known = [longest_match(part) for part in parts]
            return None if None in known else sum(n for n in known if n is not None)
        case tree.Alternation(parts=parts):
            known = [longest_match(part) for part in parts]
            return None if None in known else max(n for n in known if n is not None)
        case tree.Exclusion(part=part):
            return longest_match(part)
        case tree.Quantified(part=part, most=most):
            once = longest_match(part)
            if once == 0:
                return 0
            return None if once is None or most is None else once * most
    return 0
