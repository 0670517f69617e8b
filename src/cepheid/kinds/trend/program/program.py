"""Build the linear system of a template, as kernel arrays.

A *configuration* is the common memory of partial matches: a state of the template and their
progress in negated patterns (``gaps.py``). A kernel keeps one count per configuration: the partial
matches that are in it. An event adds the counts of some configurations to another one; which ones
depends on the event's class. After the events of one time, configurations change by the letter of
that time. Classes and letters are numbered as they appear in the data, so that no unused ones are
built.

    code          numbers a class, within its letter: the effect of an event
    targets       code -> configurations that grow        (CSR: target_ptr, target)
    sources       target -> configurations that it adds   (CSR: source_ptr, source)
    start         target x start configuration -> whether a match may begin so
    clears        code -> configurations whose matches it removes (skip-till-next-match)
    moves         letter -> (from, to) pairs of configurations; -1 drops     (CSR: move_ptr, ...)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.kinds.trend.program.gaps import (
    Class,
    Item,
    Letter,
    Machine,
    UndecidedGuardError,
    letter_of,
)
from cepheid.kinds.trend.program.open_links import SEVERAL
from cepheid.language import tree
from cepheid.plans.links import Links
from cepheid.plans.template import START, Template

CONFIGURATIONS_MAX = 4096
"""Configurations of a program; each costs a number per partition and open window."""


CLOSING_MAX = 64
"""Numbers that an event may read in the fast kernel; beyond, the general one skips more."""


class Tables(NamedTuple):
    """The arrays of a program; see the module's docstring."""

    target_ptr: NDArray[np.int32]
    target: NDArray[np.int32]
    source_ptr: NDArray[np.int32]
    source: NDArray[np.int32]
    start: NDArray[np.bool_]
    clear_ptr: NDArray[np.int32]
    clear: NDArray[np.int32]
    move_ptr: NDArray[np.int32]
    move_from: NDArray[np.int32]
    move_to: NDArray[np.int32]
    start_next: NDArray[np.int32]
    finished: NDArray[np.bool_]
    counts: NDArray[np.bool_]
    variable: NDArray[np.int32]


class Plain(NamedTuple):
    """A program in which an event adds a few numbers to one: code -> slot, code -> slots."""

    target: NDArray[np.int64]
    source: NDArray[np.int64]


class Moving(NamedTuple):
    """A program in which matches move: code -> slots; see ``kernels/counting.py``."""

    target: NDArray[np.int64]
    ending: NDArray[np.int64]
    source: NDArray[np.int64]
    clear: NDArray[np.int64]
    begins: NDArray[np.bool_]


class Closing(NamedTuple):
    """A program in which matches change their configurations; see ``kernels/closing.py``."""

    row: NDArray[np.int64]
    source: NDArray[np.int64]
    begins: NDArray[np.bool_]


class Program:
    """The linear system of one template; it grows with the classes and letters of the data."""

    def __init__(
        self,
        template: Template,
        semantics: tree.Semantics,
        text: str,
        links: Links | None = None,
    ) -> None:
        self.template = template
        self.semantics = semantics
        self.links = links
        self.machine = Machine(template, links)
        self.variables = _all_variables(template)
        self._text = text
        # Under skip-till-any-match a match stays where it ended, so the total can be read there.
        # So it does where links close: configurations tell which of them are open.
        staying = (tree.Semantics.ANY_MATCH, tree.Semantics.BY_LINK)
        self._keeps_finished = semantics not in staying
        self._configurations: dict[Item, int] = {}
        self._starts: dict[Item, int] = {self.machine.start(): 0}
        self._letters: dict[Letter, int] = {}
        self._codes: dict[tuple[Letter, Class], int] = {}
        self._explored = 0
        # Everything that was numbered, in order: replaying it builds the same program.
        self.history: list[tuple[Class, ...]] = []
        self._known: set[tuple[Class, ...]] = set()
        self._tables: Tables | None = None
        self._plain: tuple[Tables | None, Plain | None] = (None, None)

    @property
    def size(self) -> int:
        """Count the configurations."""
        return len(self._configurations)

    @property
    def start_size(self) -> int:
        """Count the start configurations."""
        return len(self._starts)

    @property
    def guarded(self) -> bool:
        """Check whether letters matter: the template has negation, or its links close."""
        return bool(self.template.guards) or self.links is not None

    def number_codes(self, groups: Iterable[tuple[Class, ...]]) -> list[list[int]]:
        """Look up the code of every class of every group of events of one time.

        New classes and letters are added to the program first.
        """
        groups = list(groups)
        for classes in groups:
            if classes not in self._known:
                self._known.add(classes)
                self.history.append(classes)
        wanted: list[tuple[Letter, Class]] = []
        for classes in groups:
            letter = letter_of(classes)
            if self.links is not None and len(classes) > 1:
                letter |= {SEVERAL}
            wanted += [(letter if self.guarded else letter_of([c]), c) for c in classes]
        for letter, taken in dict.fromkeys(wanted):
            self._letters.setdefault(letter, len(self._letters))
            if (letter, taken) not in self._codes:
                self._codes[letter, taken] = len(self._codes)
                self._tables = None
        if self._explored < len(self._codes):
            self._explore()
            self._explored = len(self._codes)
        codes = iter(wanted)
        return [[self._codes[next(codes)] for _ in classes] for classes in groups]

    def letters_of_codes(self) -> NDArray[np.int32]:
        """Look up the letter of every code."""
        return np.array([self._letters[letter] for letter, _ in self._codes], np.int32)

    def tables(self) -> Tables:
        """Build the arrays for all classes and letters numbered so far."""
        if self._tables is None:
            self._tables = self._build()
        return self._tables

    def plain(self) -> Plain | None:
        """Convert the program to the form of ``kernels/counting.py``, if possible."""
        if self.guarded or self.semantics is not tree.Semantics.ANY_MATCH:
            return None
        tables = self.tables()
        if self._plain[0] is not tables:
            self._plain = tables, self._plain_of(tables)
        return self._plain[1]

    def _plain_of(self, tables: Tables) -> Plain | None:
        widths = np.diff(tables.target_ptr)
        if len(widths) and widths.max() > 1:
            return None
        unit, zero = self.size, self.size + 1
        target = np.full(len(widths), -1, np.int64)
        lists: list[list[int]] = [[] for _ in widths]
        for code in range(len(widths)):
            if widths[code]:
                t = tables.target_ptr[code]
                target[code] = tables.target[t]
                lists[code] = list(tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]])
                lists[code] += [unit] if tables.start[t, 0] else []
        return Plain(target, _padded(lists, zero))

    def moving(self) -> Moving | None:
        """Convert a program of moving matches to the form of the fast kernel, if possible."""
        if self.guarded or self.semantics is tree.Semantics.ANY_MATCH:
            return None
        tables = self.tables()
        unit, zero, none = self.size, self.size + 1, self.size + 2
        targets: dict[bool, list[int]] = {False: [], True: []}
        sources: list[list[int]] = []
        clears: list[list[int]] = []
        staying = [q for q in range(self.size) if not tables.finished[q]]
        for code in range(len(tables.target_ptr) - 1):
            found = range(tables.target_ptr[code], tables.target_ptr[code + 1])
            ways = {
                (
                    *tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]],
                    tables.start[t, 0],
                )
                for t in found
            }
            ends = [bool(tables.finished[tables.target[t]]) for t in found]
            if len(ways) > 1 or len(set(ends)) < len(ends):
                return None
            for kind, slots in targets.items():
                fitting = [
                    int(tables.target[t]) for t, e in zip(found, ends, strict=True) if e is kind
                ]
                slots.append(fitting[0] if fitting else none)
            *adding, begins = next(iter(ways), (False,))
            sources.append([*adding, *([unit] if begins else [])])
            cleared = tables.clear[tables.clear_ptr[code] : tables.clear_ptr[code + 1]]
            contiguous = self.semantics is tree.Semantics.CONTIGUOUS
            clears.append(staying if contiguous else [int(q) for q in cleared])
        return Moving(
            np.array(targets[False], np.int64),
            np.array(targets[True], np.int64),
            _padded(sources, zero),
            _padded(clears, none),
            np.array([unit in adding for adding in sources], np.bool_),
        )

    def closing(self) -> Closing | None:
        """Convert a program with letters to the form of ``kernels/closing.py``, if possible."""
        if not self.guarded or self._keeps_finished or len(self._starts) > 1:
            return None
        tables, letters = self.tables(), self.letters_of_codes()
        if (tables.start_next < 0).any():
            return None
        unit, zero, none = self.size, self.size + 1, self.size + 2
        changes: list[dict[int, list[int]]] = []
        for code, letter in enumerate(letters):
            moves = slice(tables.move_ptr[letter], tables.move_ptr[letter + 1])
            moved = dict(zip(tables.move_from[moves], tables.move_to[moves], strict=True))
            found: dict[int, list[int]] = {int(q): [] for q in moved}
            targets = range(tables.target_ptr[code], tables.target_ptr[code + 1])
            found |= {int(q): [] for q in moved.values() if q >= 0}
            found |= {int(tables.target[t]): [] for t in targets}
            for q in range(self.size):
                home = int(moved.get(q, q))
                if home in found:
                    found[home].append(q)
            for t in targets:
                adding = tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]]
                found[int(tables.target[t])] += [int(q) for q in adding]
                found[int(tables.target[t])] += [unit] if tables.start[t, 0] else []
            changes.append(found)
        rows = max([1, *map(len, changes)])
        wide = max([1, *(len(added) for found in changes for added in found.values())])
        if rows * wide > CLOSING_MAX:
            return None
        row = _padded([list(found) for found in changes], none)
        source = np.full((*row.shape, wide), zero, np.int64)
        for code, found in enumerate(changes):
            for place, added in enumerate(found.values()):
                source[code, place, : len(added)] = added
        return Closing(row, source, (source == unit).any(2))

    def dump(self) -> str:
        """Format the program as text: configurations, and the effect of every code."""
        tables = self.tables()
        names = [f"{i}:{self._name(item)}" for item, i in self._configurations.items()]
        lines = [f"program {self.template.text} ({self.semantics.value})"]
        lines.append(f"  configurations {', '.join(names) or 'none'}; {len(self._starts)} start")
        for (letter, taken), code in self._codes.items():
            what = "".join(sorted(taken)) or "nothing"
            parts = []
            for t in range(tables.target_ptr[code], tables.target_ptr[code + 1]):
                sources = tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]]
                terms = [f"v[{s}]" for s in sources]
                terms += ["1"] if tables.start[t].any() else []
                parts.append(f"v[{tables.target[t]}] += {' + '.join(terms) or '0'}")
            moves = self._letters[letter]
            parts += [
                f"v[{tables.move_from[m]}] -> {tables.move_to[m]}"
                for m in range(tables.move_ptr[moves], tables.move_ptr[moves + 1])
            ]
            lines.append(f"  {code}: {what:<8} {'; '.join(parts) or 'no effect'}")
        return "\n".join(lines)

    def _name(self, item: Item) -> str:
        state = self.template.states[item.state].variable
        marks = f"{'!' if item.finished else ''}{'*' if item.slots else ''}"
        return state + marks + "".join(f"-{name}" for name in sorted(item.closed))

    # Building ------------------------------------------------------------------------------------

    def _explore(self) -> None:
        """Find every configuration that the known letters can lead to, breadth first."""
        waiting: list[Item] = [*self._starts, *self._configurations]
        seen = set(waiting)
        try:
            for item in waiting:
                for new in self._successors(item):
                    if new not in seen:
                        seen.add(new)
                        waiting.append(new)
                        home = self._starts if new.state == START else self._configurations
                        home[new] = len(home)
                        self._tables = None
                if len(self._configurations) > CONFIGURATIONS_MAX:
                    self._reject("E403", f"more than {CONFIGURATIONS_MAX} configurations")
        except UndecidedGuardError:
            self._reject(
                "E402", "a negated part to choose between ways before its outcome is known"
            )

    def _successors(self, item: Item) -> Iterable[Item]:
        for letter in self._letters:
            evolved = self.machine.evolve(item, letter)
            if evolved is not None:
                yield evolved
        if not item.finished:
            for letter, taken in self._codes:
                yield from self._kept(self.machine.extend(item, taken, letter))

    def _kept(self, items: list[Item]) -> list[Item]:
        return [item for item in items if self._keeps_finished or not item.finished]

    def _reject(self, code: str, what: str) -> None:
        message = f"the negation in this pattern needs {what}"
        helps = ("give the parts around NOT different variables, or split the query",)
        diagnostic = Diagnostic(code, message, self.template.span, helps=helps)
        raise UnsupportedError([diagnostic], self._text)

    def _build(self) -> Tables:
        targets, sources, starts, clears = _Csr(), _Csr(), [], _Csr()
        for letter, taken in self._codes:
            found: dict[int, tuple[list[int], set[int]]] = {}
            for item, index in [*self._configurations.items(), *self._starts.items()]:
                if item.finished:
                    continue
                for new in self._kept(self.machine.extend(item, taken, letter)):
                    entry = found.setdefault(self._configurations[new], ([], set()))
                    if item.state == START:
                        entry[1].add(index)
                    else:
                        entry[0].append(index)
            for target, (adding, starting) in found.items():
                targets.add(target)
                sources.add_all(adding)
                starts.append([s in starting for s in range(len(self._starts))])
            targets.close()
            clears.add_all(self._cleared(taken))
        moves, arrivals, start_next = _Csr(), [], []
        for letter in self._letters:
            for item, index in self._configurations.items():
                after = self.machine.evolve(item, letter)
                to = -1 if after is None else self._configurations[after]
                if to != index:
                    moves.add(index)
                    arrivals.append(to)
            moves.close()
            after_start = [self.machine.evolve(item, letter) for item in self._starts]
            start_next.append([-1 if a is None else self._starts[a] for a in after_start])
        return Tables(
            targets.pointers(),
            targets.values(),
            sources.pointers(),
            sources.values(),
            np.array(starts, np.bool_).reshape(-1, len(self._starts)),
            clears.pointers(),
            clears.values(),
            moves.pointers(),
            moves.values(),
            np.array(arrivals, np.int32),
            np.array(start_next, np.int32).reshape(-1, len(self._starts)),
            np.array([item.finished for item in self._configurations], np.bool_),
            np.array([self._counts(item) for item in self._configurations], np.bool_),
            np.array([self._variable(item) for item in self._configurations], np.int32),
        )

    def _cleared(self, taken: Class) -> list[int]:
        """Collect the configurations whose matches an event of a class extends or ends (§3.2)."""
        if self.semantics is not tree.Semantics.NEXT_MATCH:
            return []
        return [
            index
            for item, index in self._configurations.items()
            if not item.finished and taken & set(self.template.states[item.state].allowed)
        ]

    def _counts(self, item: Item) -> bool:
        """Check whether matches in a configuration count when the window ends."""
        if item.finished:
            return self.machine.holds(item)
        if self._keeps_finished:
            return False
        return any(self.machine.holds(done) for done in self.machine.finish(item))

    def _variable(self, item: Item) -> int:
        return self.variables.index(self.template.states[item.state].variable)


class _Csr:
    """A builder of CSR arrays: pointers and values."""

    def __init__(self) -> None:
        self._pointers = [0]
        self._values: list[int] = []

    def add(self, value: int) -> None:
        self._values.append(value)

    def add_all(self, values: Iterable[int]) -> None:
        self._values.extend(values)
        self.close()

    def close(self) -> None:
        self._pointers.append(len(self._values))

    def pointers(self) -> NDArray[np.int32]:
        return np.array(self._pointers, np.int32)

    def values(self) -> NDArray[np.int32]:
        return np.array(self._values, np.int32)


def _padded(lists: list[list[int]], filler: int) -> NDArray[np.int64]:
    """Pad lists of different lengths to one array."""
    array = np.full((len(lists), max([1, *map(len, lists)])), filler, np.int64)
    for row, values in enumerate(lists):
        array[row, : len(values)] = values
    return array


def _all_variables(template: Template) -> list[str]:
    """Collect the distinct variables of a template and of its negated patterns."""
    names = [state.variable for state in template.states]
    for guard in template.guards:
        names += _all_variables(guard.template)
    return list(dict.fromkeys(names))
