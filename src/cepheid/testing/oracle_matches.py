"""The matches of a pattern: the events of one window in, the set of its matches out.

A transcription of docs/semantics.md §2 and §3. Structural recursion over the pattern gives all its
*derivations*, each with what its NOT parts demand; every rule that a match must obey then filters
them. Brute force on purpose: this must be easy to believe, not fast.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from cepheid.language import tree
from cepheid.testing.oracle_expressions import compute
from cepheid.testing.oracle_patterns import allows
from cepheid.testing.oracle_stream import Binding, Match, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

Obligation = tuple[tree.Pattern, int | None, int | None]
"""No match of the pattern may come after the first event and before the second (§2.5).

Without a first event it reaches back to the start of the window, without a second to its end.
"""

Derivation = tuple[Match, frozenset[Obligation]]
Waiting = frozenset[tuple[tree.Pattern, int | None]]
"""NOT parts whose left end is known and whose right end is still to come."""

NOTHING: Derivation = ((), frozenset())


class Window:
    """The events of one window, and the matches among them."""

    def __init__(self, stream: Stream, query: tree.Query, indices: Sequence[int]) -> None:
        self.stream = stream
        self.query = query
        self.indices = indices
        self._derivations: dict[tree.Pattern, set[Derivation]] = {}

    def matches(self, pattern: tree.Pattern) -> set[Match]:
        """Return the matches of a pattern that lie in the window (§2.2, §3.4)."""
        least = self.query.min_length.value if self.query.min_length else 1
        assert isinstance(least, int), "MIN LENGTH is a whole number"
        return {
            match
            for match, obligations in self.derivations(pattern)
            if len(match) >= max(least, 1)  # §2.11, and a match is never empty (§2.2)
            and self.is_connected(match)
            and self.stream.agree(match)
            and self.is_selected(pattern, match)
            and all(self.is_respected(obligation, match) for obligation in obligations)
            and all(self.stream.holds_globally(p, match) for p in self.stream.predicates.global_)
        }

    # -----------------------------------------------------------------------------------
    # Derivations (§2.4 to §2.8)

    def derivations(self, pattern: tree.Pattern) -> set[Derivation]:
        """Return the ways to derive a pattern, the empty one included where it may be absent."""
        if pattern not in self._derivations:
            self._derivations[pattern] = self._derive(pattern)
        return self._derivations[pattern]

    def _derive(self, pattern: tree.Pattern) -> set[Derivation]:
        match pattern:
            case tree.EventPattern(variable=name):
                bound = [i for i in self.indices if self.stream.can_bind(name.text, i)]
                return {(((name.text, i),), frozenset()) for i in bound}
            case tree.Disjunction(alternatives=alternatives):
                return set().union(*(self.derivations(a) for a in alternatives))
            case tree.Repeat(pattern=inner, least=least, most=most):
                return self._repeat(self.derivations(inner), least, most)
            case tree.Sequence(parts=parts):
                return self._sequence(parts)
        message = f"{type(pattern).__name__} has no matches of its own"
        raise ValueError(message)

    def _repeat(self, once: set[Derivation], least: int, most: int | None) -> set[Derivation]:
        """Return least to most derivations in sequence (§2.4)."""
        # More repetitions than events add nothing: all further ones would be empty.
        enough = max(least, len(self.indices))
        found, times_n = set(), {NOTHING}
        for n in range(enough + 1 if most is None else min(most, enough) + 1):
            if n >= least:
                found |= times_n
            times_n = {
                (left + right, demands | more)
                for left, demands in times_n
                for right, more in once
                if self._fit(left, right)
            }
        return found

    def _sequence(self, parts: Sequence[tree.Pattern]) -> set[Derivation]:
        """Return one derivation of each part in sequence, with the demands of its NOT parts."""
        partial: set[tuple[Match, frozenset[Obligation], Waiting]] = {(*NOTHING, frozenset())}
        for part in parts:
            if isinstance(part, tree.Negation):
                partial = {
                    (left, demands, waiting | {(part.pattern, left[-1][1] if left else None)})
                    for left, demands, waiting in partial
                }
                continue
            partial = {
                # An absent part changes nothing: a NOT looks past it (§2.6).
                (left + right, demands | more | _close(waiting, right[0][1]), frozenset())
                if right
                else (left, demands, waiting)
                for left, demands, waiting in partial
                for right, more in self.derivations(part)
                if self._fit(left, right)
            }
        # When every part is absent, the NOTs say nothing (§2.6).
        return {
            (whole, demands | _close(waiting, None)) if whole else NOTHING
            for whole, demands, waiting in partial
        }

    def _fit(self, left: Match, right: Match) -> bool:
        return not left or not right or self.stream.before(left[-1][1], right[0][1])

    # -----------------------------------------------------------------------------------
    # What a match must obey

    def is_connected(self, match: Match) -> bool:
        """Return whether the edge predicates hold between all neighbours (§4.4)."""
        return all(self.stream.may_neighbour(u, v) for u, v in itertools.pairwise(match))

    def is_selected(self, pattern: tree.Pattern, match: Match) -> bool:
        """Return whether the match skips only what the SEMANTICS clause lets it skip (§3)."""
        clause = self.query.semantics
        if clause is None or clause.semantics == tree.Semantics.ANY_MATCH:
            return True
        if clause.semantics == tree.Semantics.CONTIGUOUS:
            return self._is_contiguous(match)
        return all(
            not any(
                self._may_follow(pattern, match[:n], (variable, x))
                for x in self._between(match[n - 1][1], match[n][1])
                for variable in self.stream.variable_types
            )
            for n in range(1, len(match))
        )

    def _may_follow(self, pattern: tree.Pattern, partial: Match, new: Binding) -> bool:
        """Return whether a binding may follow a partial match (§3.1)."""
        return (
            allows(pattern, [variable for variable, _ in (*partial, new)])
            and self.stream.before(partial[-1][1], new[1])
            and self.stream.can_bind(*new)
            and self.stream.may_neighbour(partial[-1], new)
            and self.stream.agree((*partial, new))
        )

    def _between(self, first: int, second: int) -> list[int]:
        before = self.stream.before
        return [x for x in self.indices if before(first, x) and before(x, second)]

    def _is_contiguous(self, match: Match) -> bool:
        """Return whether no event of the partition is skipped (§3.3)."""
        skipped = set(self._between(match[0][1], match[-1][1])) - {i for _, i in match}
        return not any(self._is_of_partition(x, match) for x in skipped)

    def _is_of_partition(self, event_idx: int, match: Match) -> bool:
        """Return whether an event belongs to the partition of a match (§4.2, §4.3)."""
        stream = self.stream
        for attribute in stream.predicates.equal:
            value = stream.value(match[0][1], attribute)
            if not compute("=", stream.value(event_idx, attribute), value):
                return False
        for attribute, variables in stream.predicates.partly_equal.items():
            if any(stream.has_type_of(event_idx, variable) for variable in variables):
                mine = stream.value(event_idx, attribute)
                theirs = [stream.value(i, attribute) for v, i in match if v in variables]
                if mine is None or not all(compute("=", mine, value) for value in theirs):
                    return False
        return True

    def is_respected(self, obligation: Obligation, context: Match) -> bool:
        """Return whether no match of a NOT part lies where it is forbidden (§2.5, §2.9).

        ``context`` is the match that it would forbid: both must agree on the equivalences.
        """
        pattern, after, until = obligation
        return not any(
            found
            and (after is None or self.stream.before(after, found[0][1]))
            and (until is None or self.stream.before(found[-1][1], until))
            and self.is_connected(found)
            and self.stream.agree(context + found)
            and all(self.is_respected(inner, context + found) for inner in obligations)
            for found, obligations in self.derivations(pattern)
        )


def _close(waiting: Waiting, until: int | None) -> frozenset[Obligation]:
    return frozenset((pattern, after, until) for pattern, after in waiting)
