"""Lower a plan to a job: the columns, parts and programs that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_bits
from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.kernels.moments import DURATION, second_of
from cepheid.kinds.trend.planning.accumulators import SECOND, Part, parts_of
from cepheid.kinds.trend.planning.aliases import ALIAS_BITS, Aliases
from cepheid.kinds.trend.planning.granularity import (
    force_evaluator,
    legal_evaluators,
    looks_back,
)
from cepheid.kinds.trend.planning.variants import Marked, mark_plan
from cepheid.kinds.trend.program.conjunction import signatures_of
from cepheid.kinds.trend.program.intersection import intersect
from cepheid.kinds.trend.program.program import Program
from cepheid.language import tree
from cepheid.patterns.symbols import types_of
from cepheid.plans.marks import variable_of
from cepheid.plans.plan import Evaluator, GlobalPredicate, TrendPlan

UNKNOWN_CODE = 255
"""In a byte table: this class has no code yet."""

CLASSES_MAX = 256
"""Classes that are numbered before any data is seen; others when they appear."""


TIED_MAX = 12
"""Classes of which all pairs are tried before any data is seen."""

EXACT_MODULI = (4294967291, 4294967279, 4294967231, 4294967197, 4294967189)
"""Primes below 2^32; residues of all five identify any integer of up to 38 digits and its sign."""


def moduli_of(plan: TrendPlan) -> tuple[int, ...]:
    """Return the moduli of the residues that a plan needs beside its default numbers."""
    return EXACT_MODULI if plan.numbers is tree.Numbers.EXACT else ()


_Columns = tuple[NDArray[np.int32], NDArray[np.int32]]


class Job:
    """A plan with everything that can be precomputed before the data comes.

    Parameters
    ----------
    moduli
        Primes modulo which counts and sums are computed beside the default numbers. By default
        none, or EXACT_MODULI for ``NUMBERS exact``; tests compare at any size with 2^61 - 1.
    reports_only
        Whether the job has no programs, because its rows come from elsewhere.

    Attributes
    ----------
    plan
        The plan; of a query with deadlines, the one over marked events.
    marked
        How events are marked, if the query has deadlines (§2.12).
    no_rows
        A schema of events and the empty result for it, once it was built.
    """

    def __init__(
        self, plan: TrendPlan, *, moduli: tuple[int, ...] | None = None, reports_only: bool = False
    ) -> None:
        _check_supported(plan)
        self._given = (plan, moduli, reports_only)
        self.marked: Marked | None = None
        if plan.has_deadlines:
            self.marked = mark_plan(plan)
            plan = self.marked.plan
        self.plan = plan
        self.moduli = moduli_of(plan) if moduli is None else moduli
        self.patterns = len(plan.patterns)
        self.templates = templates = [
            reduce(intersect, (t for n, t in enumerate(plan.patterns) if signature >> n & 1))
            for signature in signatures_of(self.patterns)
        ]
        self.judges = [self._judges_of(s) for s in signatures_of(self.patterns)]
        self.looks_back = looks_back(plan)
        self.programs = (
            []
            if self.looks_back or reports_only
            else [Program(t, plan.semantics, plan.text, plan.links) for t in templates]
        )
        self.outputs = len(templates) * (1 + len(self.moduli))
        self.types = types_of(plan.patterns)
        self.variables = list(self.types)
        self.parts, self.extremes = parts_of(plan)
        self._classes: dict[int, frozenset[str]] = {}
        # Replaceable, because copies to a GPU want buffers in another kind of memory.
        self.allocate: Callable[[int, type], NDArray[Any]] = np.empty
        self._rooms: dict[str, NDArray[Any]] = {}
        self.no_rows: tuple[pa.Schema, pa.Table] | None = None
        # Counts without events, which ranges of time hand on; threads share them.
        self.spare: list[tuple[NDArray[Any], ...]] = []
        self._byte_codes: dict[int, tuple[int, NDArray[np.uint8]]] = {}
        self._columns_of: dict[int, tuple[Program, _Columns]] = {}
        self._number_known_classes()

    def _judges_of(self, signature: int) -> tuple[GlobalPredicate, ...]:
        """List the conditions on whole matches of some patterns: those of their variables."""
        if self.patterns == 1:
            return self.plan.globals
        bound = {
            variable_of(state.variable)
            for n, template in enumerate(self.plan.patterns)
            if signature >> n & 1
            for state in template.states
        }
        return tuple(p for p in self.plan.globals if bound & _names_in(p.expression))

    def fresh(self) -> Job:
        """Create the same job with buffers of its own, for another thread."""
        plan, moduli, reports_only = self._given
        other = Job(plan, moduli=moduli, reports_only=reports_only)
        other.spare = self.spare
        return other

    @property
    def horizon(self) -> int:
        """Compute the delay in ticks until the marks of an event are known."""
        return 0 if self.marked is None else max(mark.horizon for mark in self.marked.marks)

    def class_of(self, bits: int) -> frozenset[str]:
        """Decode the variables of a bit mask."""
        if bits not in self._classes:
            names = [name for n, name in enumerate(self.variables) if bits >> n & 1]
            self._classes[bits] = frozenset(names)
        return self._classes[bits]

    def room(self, name: str, rows: int, length: int, dtype: type) -> NDArray[Any]:
        """Return a buffer for a batch; steps reuse it, because fresh memory is expensive.

        Its contents are only valid during one step.
        """
        buffer = self._rooms.get(name)
        if buffer is None or buffer.size < rows * length:
            buffer = self._rooms[name] = self.allocate(rows * length, dtype)
        return buffer[: rows * length].reshape(rows, length)

    def byte_codes(self, program: Program) -> NDArray[np.uint8]:
        """Build the table of codes of classes that fit into a byte, UNKNOWN_CODE for the others."""
        known = len(self._classes)
        if self._byte_codes.get(id(program), (0,))[0] != known:
            table = np.full(256, UNKNOWN_CODE, np.uint8)
            for bits in [b for b in self._classes if b < 256]:
                ((code,),) = program.number_codes([(self._classes[bits],)])
                if code < UNKNOWN_CODE:
                    table[bits] = code
            self._byte_codes[id(program)] = (known, table)
        return self._byte_codes[id(program)][1]

    def reads(self, name: str) -> bool:
        """Check whether a column of the input is read, itself or a field of it."""
        columns = self.plan.columns
        if columns is None or name in (self.plan.time, self.plan.type):
            return True
        return name in columns or any(c.partition(".")[0] == name for c in columns)

    def bits_of(self, columns: Columns) -> NDArray[Any]:
        """Compute for every event the variables that it may bind, as bits; nobody changes them."""
        types = [self.types[name] for name in self.variables]
        return columns.bits(self, lambda: read_bits(columns, self.plan, self.variables, types))

    def columns_of(self, program: Program) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Look up the weights of a program's variables; see ``columns_for``."""
        known = self._columns_of.get(id(program))
        if known is None or known[0] is not program:
            known = self._columns_of[id(program)] = program, self.columns_for(program.variables)
        return known[1]

    def columns_for(self, variables: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Look up which row of weights and of values a variable adds to a part, -1 for none.

        What adds to values of whole matches, and to their squares, see ``kernels/moments.py``.
        """
        wcol = np.full((len(variables), len(self.parts)), -1, np.int32)
        xcol = np.full((len(variables), len(self.extremes)), -1, np.int32)
        for v, name in enumerate(map(variable_of, variables)):
            for a, part in enumerate(self.parts):
                wcol[v, a] = self._column_of(a, part, name)
            for a, extreme in enumerate(self.extremes):
                xcol[v, a] = a if extreme.variable == name else -1
        return wcol, xcol

    def _column_of(self, a: int, part: Part, variable: str) -> int:
        """Find the row of weights that a variable adds to a part, or the code of another way."""
        if part.what.startswith(SECOND):
            first = self.parts.index(part._replace(what=part.what.removeprefix(SECOND)))
            adds = self._column_of(first, self.parts[first], variable) != -1
            return second_of(first) if adds else -1
        if part.what == "duration":
            return DURATION
        return a - 1 if part.what == "length" or part.variable == variable else -1

    def try_ties(self) -> None:
        """Explore what events of one time lead to, as far as a few kinds of them go.

        Raises
        ------
        UnsupportedError
            E402 or E403 if a program cannot be built.
        """
        known = list(self._classes.values())
        if self.plan.ties is not tree.Ties.STRICT or len(known) > TIED_MAX:
            return
        for program in self.programs:
            program.number_codes([*combinations(known, 2), tuple(known)])

    def _number_known_classes(self) -> None:
        """Assign codes to the classes that types and local predicates allow, if they are few."""
        masks = {0}
        conditional = {p.variable for p in self.plan.local if p.variable}
        everywhere = any(p.variable is None for p in self.plan.local)
        # Events of a type that the pattern does not name fit the variables of ANY alone.
        kinds = {*self.types.values(), tree.ANY_TYPE} if self.plan.type is not None else {None}
        for kind in kinds:
            mine = [
                n
                for n, name in enumerate(self.variables)
                if kind is None or self.types[name] in (kind, tree.ANY_TYPE)
            ]
            fixed = [n for n in mine if self.variables[n] not in conditional and not everywhere]
            free = [n for n in mine if n not in fixed]
            if len(free) > 8:
                return
            base = sum(1 << n for n in fixed)
            for choice in range(1 << len(free)):
                masks.add(base + sum(1 << n for i, n in enumerate(free) if choice >> i & 1))
        if len(masks) <= CLASSES_MAX:
            for program in self.programs:
                program.number_codes([(self.class_of(bits),) for bits in sorted(masks)])


def choose_runnable(plan: TrendPlan) -> TrendPlan:
    """Let a plan look back at single events if no linear system can follow its negations."""
    if looks_back(plan):
        return plan
    try:
        Job(plan).try_ties()
    except UnsupportedError as error:
        evaluator = next(e for e in legal_evaluators(plan) if e is not Evaluator.LINEAR)
        why = f"{error.diagnostics[0].message}, so events of the window are looked up instead"
        return force_evaluator(plan, evaluator, why)
    return plan


def lower(plan: TrendPlan) -> Job:
    """Lower a plan to programs: arrays that the kernels run; ``dump`` of a program prints it.

    Raises
    ------
    UnsupportedError
        E404 if the plan needs an evaluator that does not exist yet.
    """
    return Job(plan)


def _names_in(expression: tree.Expression) -> set[str]:
    """Collect the variables of an expression."""
    nodes = [n for n in tree.walk(expression) if isinstance(n, tree.Attribute | tree.Aggregate)]
    return {node.variable.text for node in nodes if node.variable is not None}


def job_of(data: bytes) -> Job:
    """Lower a plan that was serialized as JSON, as tasks receive it."""
    return lower(TrendPlan.from_json(data))


def _check_supported(plan: TrendPlan) -> None:
    """Refuse partial equivalences of so many variables that their aliases have no bits (§4.3)."""
    partial = plan.partition.partial
    if not partial:
        return
    variables = list(types_of(plan.patterns))
    listed = [frozenset(entry.variables) for entry in partial]
    if len(variables) + len(Aliases(variables, listed).all) > ALIAS_BITS:
        message = "so many variables cannot have equivalences of their own"
        helps = (f"write `[{partial[0].attribute}]` if all events have it",)
        diagnostic = Diagnostic("E404", message, partial[0].span, helps=helps)
        raise UnsupportedError([diagnostic], plan.text)
