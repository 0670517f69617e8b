"""A pattern in, an automaton without empty moves out, whose moves are in the order of preference.

The pattern becomes a program of splits and jumps first (Thompson). State 0 is the start, and every
place of a variable in the unrolled pattern is one more state. The moves of a state are what the
program reaches from it before the next row, each target once, in the order in which the standard
prefers them (ISO/IEC 19075-5, 7.2): earlier alternatives first, greedy quantifiers try one more
repetition first, reluctant ones try none first. A repetition beyond the least number must take a
row; one that takes none is dropped.

Anchors look at the place between two rows alone, so there are moves for each of four places:
elsewhere, at the start of the partition, at its end, and at both.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Never

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import Diagnostic, Span, UnsupportedError
from cepheid.kinds.row_pattern import tree

STATES_MAX = 20_000
STEPS_MAX = 2_000_000
"""To find all moves: many parts that may all be left out have as many moves as pairs."""

ACCEPT = 0
"""The target of a move that ends the match; no move leads back to the start."""

_TAKE, _SPLIT, _JUMP, _AT_START, _AT_END, _ENTER, _LEAVE, _ACCEPT = range(8)


class Automaton(NamedTuple):
    """States and their moves.

    Attributes
    ----------
    variable_of
        The number of the variable that a state takes a row for; -1 for state 0.
    excluded
        Whether a state's row is left out of ALL ROWS PER MATCH.
    first
        Moves of state s at place p are ``moves[first[p, s]:first[p, s + 1]]``; one place if the
        pattern has no anchor, else four: bit 0 at the start, bit 1 at the end.
    moves
        Targets in the order of preference; ACCEPT ends the match.
    """

    variable_of: NDArray[np.int32]
    excluded: NDArray[np.bool_]
    first: NDArray[np.int64]
    moves: NDArray[np.int32]

    @property
    def state_count(self) -> int:
        """Return the number of states."""
        return len(self.variable_of)


class _Program:
    """Instructions ``(kind, a, b)`` while they are written."""

    def __init__(self, variables: dict[str, int], text: str) -> None:
        self.steps = 0
        self.code: list[list[int]] = []
        self.variable_of = [-1]
        self.excluded = [False]
        self._variables = variables
        self._text = text

    def add(self, kind: int, a: int = 0, b: int = 0) -> int:
        self.code.append([kind, a, b])
        return len(self.code) - 1

    def write(self, pattern: tree.Pattern, *, hidden: bool = False) -> None:
        """Append the instructions of a pattern."""
        match pattern:
            case tree.Variable(name=name):
                self._check_size(pattern.span)
                self.add(_TAKE, len(self.variable_of))
                self.variable_of.append(self._variables[name])
                self.excluded.append(hidden)
            case tree.Anchor(at_start=at_start):
                self.add(_AT_START if at_start else _AT_END)
            case tree.Sequence(parts=parts):
                for part in parts:
                    self.write(part, hidden=hidden)
            case tree.Alternation(parts=parts):
                self._write_alternation([(part,) for part in parts], hidden=hidden)
            case tree.Permutation(parts=parts):
                # Every order has all parts again, so n parts have n * n! places.
                self._write_alternation(itertools.permutations(parts), hidden=hidden)
            case tree.Exclusion(part=part):
                self.write(part, hidden=True)
            case tree.Quantified():
                self._write_quantified(pattern, hidden=hidden)

    def _check_size(self, span: Span) -> None:
        if max(len(self.variable_of), len(self.code) // 4) >= STATES_MAX:
            message = f"the pattern has more than {STATES_MAX:,} positions, repetitions expanded"
            helps = ("repeat less often, or permute fewer variables",)
            raise UnsupportedError([Diagnostic("E607", message, span, helps=helps)], self._text)

    def _write_alternation(self, options: object, *, hidden: bool) -> None:
        jumps = []
        split = -1
        for parts in options:  # type: ignore[attr-defined]  # any iterable of sequences
            if split >= 0:
                self.code[split][2] = len(self.code)
            split = self.add(_SPLIT, len(self.code) + 1)
            for part in parts:
                self.write(part, hidden=hidden)
            jumps.append(self.add(_JUMP))
        # The last option has no other: its split becomes a jump to itself.
        self.code[split] = [_JUMP, split + 1, 0]
        for jump in jumps:
            self.code[jump][1] = len(self.code)

    def _write_quantified(self, pattern: tree.Quantified, *, hidden: bool) -> None:
        for _ in range(pattern.least):
            self._check_size(pattern.span)
            self.write(pattern.part, hidden=hidden)
        yes, no = (2, 1) if pattern.reluctant else (1, 2)
        if pattern.most is None:
            split = self.add(_SPLIT)
            self.code[split][yes] = len(self.code)
            self._write_optional(pattern.part, hidden=hidden)
            self.add(_JUMP, split)
            self.code[split][no] = len(self.code)
            return
        splits = []
        for _ in range(pattern.most - pattern.least):
            self._check_size(pattern.span)
            split = self.add(_SPLIT)
            self.code[split][yes] = len(self.code)
            splits.append(split)
            self._write_optional(pattern.part, hidden=hidden)
        for split in splits:
            self.code[split][no] = len(self.code)

    def _write_optional(self, part: tree.Pattern, *, hidden: bool) -> None:
        """Append a repetition that must take a row."""
        if not _may_be_empty(part):
            self.write(part, hidden=hidden)
            return
        enter = self.add(_ENTER)
        self.write(part, hidden=hidden)
        self.add(_LEAVE, enter)

    def reach(self, start: int, place: int) -> list[int]:
        """Return the states that follow an instruction at a place, in order, each once."""
        found: dict[int, None] = {}
        seen: set[tuple[int, frozenset[int]]] = set()
        # With a place in the program goes what was entered since the last row.
        stack = [(start, frozenset[int]())]
        while stack:
            at, entered = stack.pop()
            self.steps += 1
            if (at, entered) in seen:
                continue
            seen.add((at, entered))
            kind, a, b = self.code[at]
            if kind == _TAKE:
                found.setdefault(a)
            elif kind == _ACCEPT:
                found.setdefault(ACCEPT)
            elif kind == _SPLIT:
                stack += ((b, entered), (a, entered))
            elif kind == _JUMP:
                stack.append((a, entered))
            elif kind == _ENTER:
                stack.append((at + 1, entered | {at}))
            elif kind == _LEAVE:
                if a not in entered:
                    stack.append((at + 1, entered))
            elif place & (1 if kind == _AT_START else 2):
                stack.append((at + 1, entered))
        return list(found)


def _may_be_empty(pattern: tree.Pattern) -> bool:
    """Check whether a pattern can match no row."""
    match pattern:
        case tree.Variable():
            return False
        case tree.Sequence(parts=parts) | tree.Permutation(parts=parts):
            return all(map(_may_be_empty, parts))
        case tree.Alternation(parts=parts):
            return any(map(_may_be_empty, parts))
        case tree.Exclusion(part=part):
            return _may_be_empty(part)
        case tree.Quantified(part=part, least=least):
            return least == 0 or _may_be_empty(part)
    return True


def _too_many_moves(span: Span, text: str) -> Never:
    message = "the pattern has too many transitions from one row to the next"
    helps = ("use fewer optional parts in a row, or write `A{0,9}` for `A? A? A? ...`",)
    raise UnsupportedError([Diagnostic("E607", message, span, helps=helps)], text)


def build_automaton(pattern: tree.Pattern, variables: tuple[str, ...], text: str = "") -> Automaton:
    """Return the automaton of a pattern.

    Raises
    ------
    UnsupportedError
        E607 if it would have too many states.

    Examples
    --------
    >>> from cepheid.kinds.row_pattern.parser import parse_clause_text
    >>> clause = parse_clause_text("MATCH_RECOGNIZE (PATTERN (A B*?))")
    >>> automaton = build_automaton(clause.pattern, ("A", "B"))
    >>> automaton.variable_of.tolist(), automaton.first.tolist(), automaton.moves.tolist()
    ([-1, 0, 1], [[0, 1, 3, 5]], [1, 0, 2, 0, 2])
    """
    program = _Program({name: i for i, name in enumerate(variables)}, text)
    program.write(pattern)
    program.add(_ACCEPT)
    takes = {code[1]: at for at, code in enumerate(program.code) if code[0] == _TAKE}
    anchored = any(code[0] in (_AT_START, _AT_END) for code in program.code)
    starts = [0, *(takes[state] + 1 for state in range(1, len(program.variable_of)))]
    moves: list[int] = []
    first = np.zeros((4 if anchored else 1, len(starts) + 1), np.int64)
    for place in range(len(first)):
        for state, start in enumerate(starts):
            first[place, state] = len(moves)
            moves += program.reach(start, place)
            if program.steps > STEPS_MAX:
                _too_many_moves(pattern.span, text)
        first[place, len(starts)] = len(moves)
    return Automaton(
        np.array(program.variable_of, np.int32),
        np.array(program.excluded, np.bool_),
        first,
        np.array(moves, np.int32),
    )
