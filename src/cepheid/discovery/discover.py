"""``cepheid.discover``: the rules that hold in a log, and those that tell two groups apart."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cepheid import options
from cepheid.discovery import choice
from cepheid.discovery.candidates import (
    Candidates,
    is_frequent,
    of_forms,
    of_sequences,
    of_waits,
)
from cepheid.discovery.cases import Cases, Names, read_cases
from cepheid.discovery.declare import count_facts
from cepheid.discovery.found import Discovery, Search
from cepheid.discovery.ladder import ladder
from cepheid.discovery.ranking import Groups
from cepheid.discovery.sequences import Places, count_longer, count_waits, places_of
from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import read_schema
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.jobs.sources import source_of
from cepheid.jobs.ticks import TICKS_NS, tick_of
from cepheid.patterns.scope import Source

LENGTH_MAX = 8
TYPES_MAX = 1_000


def discover(
    events: object,
    *,
    key: str,
    label: str | None = None,
    support: float = 0.1,
    confidence: float = 0.9,
    max_length: int = 3,
    max_types: int = 100,
    max_candidates: int = 1_000_000,
    top: int = 20,
    time: str = "ts",
    type: str = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    time_unit: str = "us",
    time_format: str | None = None,
) -> Discovery:
    """Find the rules that hold in a log of events, or that tell cases with a label from others.

    Parameters
    ----------
    events
        A table, a data frame, a reader, files or an event store, as for ``q.run``.
    key
        The column that says which case an event belongs to: a session, an order, a machine.
    label
        A column that is true for all events of the cases that you look for. With it, rules are
        ranked by how well their reports tell these cases from others; without it, by how often
        they hold.
    support
        The share of the cases that a rule must speak of; with a label, the share of the cases
        with the label that its query must report.
    confidence
        Without a label: the share of these cases in which a rule must hold.
    max_length
        The number of types of the longest sequence, 2 to 8.
    max_types
        How many types are looked at, up to 1,000: those that most cases have.
    max_candidates
        How many rules are counted at most; longer sequences are left out first.
    top
        How many rules are returned; without a label of each family.
    time, type, tiebreak, time_unit, time_format
        As for :func:`cepheid.query`.

    Raises
    ------
    OptionError
        E590 and E592 for values that cannot be used.
    DataError
        E505 for a missing column, E595 for a label that is not one of cases, E506 and others for
        events that cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> events = pa.table({"ts": range(6), "case": [1, 1, 2, 2, 3, 3],
    ...                    "type": ["order", "pay", "order", "pay", "order", "cancel"]})
    >>> found = discover(events, key="case", support=0.5, confidence=0.6, top=1)
    >>> found.table["rule"].to_pylist()
    ['init(order)', 'order → pay within 1 millisecond', 'order, pay within 1 millisecond']
    """
    options.texts(key=key, time=time, type=type)
    _check(support, confidence, max_length, max_types, max_candidates, top)
    options.one_of("time_unit", time_unit, TICKS_NS)
    names = Names(key, time, type, label, options.names_in("tiebreak", tiebreak))
    began = clock.perf_counter()
    source = source_of(events, TextTimes(time, as_format(time_format)))
    table = source.whole(names.all)
    log = read_cases(table, names, max_types)
    cases, groups = log.cases, Groups(log.cases.size, int(log.cases.labels.sum()))
    if not groups.cases:
        message = f"there is no event with a `{key}`"
        raise DataError([Diagnostic("E595", message, helps=("name the column of the cases",))])
    if label is not None and groups.labelled in (0, groups.cases):
        every = "no case" if not groups.labelled else "every case"
        message = f"{every} has the label `{label}`, so there is nothing to tell apart"
        raise DataError([Diagnostic("E595", message, helps=("leave the label out",))])
    bare = Source(time, type, names.tiebreak, None, time_unit)
    lengths, ticks = ladder(tick_of(bare, [read_schema(table.schema)]))
    growth = _Growth(cases, groups, places_of(cases, ticks), support, max_candidates)
    found = list(growth.candidates(max_length))
    if label is None:
        has = growth.has / groups.cases
        habits = choice.Habits(groups.cases, has, len(cases.case) / groups.cases)
        rows = choice.common(found, habits, choice.Bounds(support, confidence, top))
    else:
        rows = choice.telling(found, groups, support, top)
    search = Search(
        names, log.types, lengths, groups, len(table), sum(len(one) for one in found),
        log.other_types, log.without_key, growth.left_out, clock.perf_counter() - began,
    )  # fmt: skip
    return Discovery.of(rows, search)


class _Growth:
    """Counts forms and deadlines, then sequences from those that are frequent."""

    def __init__(
        self, cases: Cases, groups: Groups, parts: list[Places], support: float, limit: int
    ) -> None:
        self._cases, self._groups, self._parts = cases, groups, parts
        self._support, self._limit = support, limit
        self.left_out = 0
        self.has = np.zeros(cases.kinds, np.int64)

    def candidates(self, max_length: int) -> Iterator[Candidates]:
        """Yield all candidates, table by table."""
        facts = count_facts(self._cases)
        self.has = facts.has
        marked = self._groups.labelled
        labelled = count_facts(self._cases.with_label()) if marked else facts.none()
        counted = 0
        for table in of_forms(facts, labelled):
            counted += len(table)
            yield table
        kinds = self._cases.kinds
        pairs = [(one, two) for one in range(kinds) for two in range(kinds) if one != two]
        if pairs:
            for table in of_waits(pairs, count_waits(self._parts, pairs)):
                counted += len(table)
                yield table
        frequent = is_frequent(facts.has, labelled.has, self._groups, self._support)
        types = np.flatnonzero(frequent).tolist()
        stake: dict[tuple[int, ...], int] = {(one,): int(facts.has[one]) for one in types}
        for _ in range(max_length - 1):
            before = counted
            longer: dict[tuple[int, ...], int] = {}
            for table in self._longer(stake, counted):
                counted += len(table)
                if (table.step < 0).all():
                    longer = self._frequent(table)
                yield table
            if counted == before:
                return
            stake = longer

    def _longer(self, stake: dict[tuple[int, ...], int], counted: int) -> Iterator[Candidates]:
        """Count sequences that are one type longer, those of the most frequent ones first."""
        kinds, steps = self._cases.kinds, self._parts[0].steps
        room = max(self._limit - counted, 0) // (kinds * steps)
        prefixes = sorted(stake, key=lambda types: (-stake[types], types))
        self.left_out += max(len(prefixes) - room, 0) * kinds * steps
        if prefixes[:room]:
            counts = count_longer(self._parts, prefixes[:room], kinds)
            spoken = np.array([stake[types] for types in prefixes[:room]])
            yield from of_sequences(prefixes[:room], spoken, counts)

    def _frequent(self, table: Candidates) -> dict[tuple[int, ...], int]:
        kept = is_frequent(table.holds, table.labelled, self._groups, self._support)
        rows = np.flatnonzero(kept)
        return dict(
            zip(map(tuple, table.types[rows].tolist()), table.holds[rows].tolist(), strict=True)
        )


def _check(
    support: float, confidence: float, max_length: int, max_types: int, limit: int, top: int
) -> None:
    shares: dict[str, Any] = {"support": support, "confidence": confidence}
    for name, value in shares.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            options.refuse("E590", f"{name} is more than 0 and at most 1, not {value!r}")
    numbers: dict[str, tuple[Any, int, int]] = {
        "max_length": (max_length, 2, LENGTH_MAX),
        "max_types": (max_types, 1, TYPES_MAX),
        "max_candidates": (limit, 1, 100_000_000),
        "top": (top, 1, 100_000),
    }
    for name, (value, least, most) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            options.refuse("E590", f"{name} is a number from {least} to {most:,}, not {value!r}")
