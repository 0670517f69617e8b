"""Events in, cases out: the events of every key in order, as arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cepheid.arrays.columns import Columns, read_times
from cepheid.errors import DataError, Diagnostic, suggest_names

OTHER = -1
"""The number of a type that is not looked at, and of an event without a type."""


class Cases(NamedTuple):
    """Whole cases: their events lie one after another, each case in order (§1.4).

    Attributes
    ----------
    case
        The number of the case of every event, from 0 on and ascending.
    kind
        The number of the type of every event, or OTHER.
    time
        The times of events in ticks.
    labels
        Of every case, whether it has the label.
    kinds
        How many types there are.
    """

    case: NDArray[np.int64]
    kind: NDArray[np.int64]
    time: NDArray[np.int64]
    labels: NDArray[np.bool_]
    kinds: int

    @property
    def size(self) -> int:
        """The number of cases."""
        return len(self.labels)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The place of the first event of every case, and at the end the number of events."""
        return np.searchsorted(self.case, np.arange(self.size + 1))

    def parts(self, events: int) -> Iterator[Cases]:
        """Cut into parts of whole cases, of about as many events as given."""
        starts, at = self.starts, 0
        while at < self.size:
            end = max(int(np.searchsorted(starts, starts[at] + events, side="right")) - 1, at + 1)
            rows = slice(int(starts[at]), int(starts[end]))
            yield Cases(
                self.case[rows] - at, self.kind[rows], self.time[rows], self.labels[at:end],
                self.kinds,
            )  # fmt: skip
            at = end

    def with_label(self) -> Cases:
        """Return the cases that have the label."""
        kept = self.labels[self.case]
        numbers = np.cumsum(self.labels) - 1
        return Cases(
            numbers[self.case[kept]], self.kind[kept], self.time[kept],
            self.labels[self.labels], self.kinds,
        )  # fmt: skip


class Log(NamedTuple):
    """The cases of a log, the names of its types, and what was left out of it."""

    cases: Cases
    types: tuple[str, ...]
    other_types: int
    without_key: int


class Names(NamedTuple):
    """The columns of a log: its key, time and type, and the label of cases, if there is one."""

    key: str
    time: str
    type: str
    label: str | None = None
    tiebreak: tuple[str, ...] = ()

    @property
    def all(self) -> list[str]:
        """All columns that are read."""
        label = () if self.label is None else (self.label,)
        return list(dict.fromkeys((self.key, self.time, self.type, *label, *self.tiebreak)))


def check_columns(present: Sequence[str], names: Names) -> None:
    """Refuse a log that lacks a column (E505); dotted names reach into structures."""
    for name in names.all:
        if name not in present and name.partition(".")[0] not in present:
            helps = (suggest_names(name, present, owner="the input"),)
            raise DataError([Diagnostic("E505", f"the input has no column `{name}`", helps=helps)])


def read_cases(
    table: pa.Table, names: Names, max_types: int, known: tuple[str, ...] | None = None
) -> Log:
    """Put the events of a table into cases.

    Parameters
    ----------
    table
        Events with the given columns.
    names
        The columns.
    max_types
        How many types are looked at: those that most cases have. Events of others stay in
        their cases, as events of no type.
    known
        The types that are looked at, if they are known already.

    Raises
    ------
    DataError
        E506 for events without a time; E595 if a case has the label in some events only.
    """
    columns = Columns(table)
    keys = columns.arrow(names.key)
    if pa.types.is_nested(keys.type):
        message = f"the key `{names.key}` is of type {keys.type}, which tells no cases apart"
        helps = ("name a column of texts, numbers or times",)
        raise DataError([Diagnostic("E595", message, helps=helps)])
    without_key = keys.null_count
    if without_key:
        table = table.filter(pc.is_valid(keys))
        columns = Columns(table)
    time = read_times(columns, names.time)
    case, count = _numbers(columns.arrow(names.key))
    kind, texts = _types(columns, names.type)
    later: list[NDArray[np.int64]] = [_ranks(columns.arrow(one)) for one in names.tiebreak]
    order = np.lexsort([*reversed(later), time, case])
    case, kind, time = case[order], kind[order], time[order]
    labels = _labels(columns, names, case, order, count)
    types = _most_frequent(case, kind, texts, max_types) if known is None else known
    kind = _renumbered(kind, texts, types)
    cases = Cases(case, kind, time, labels, len(types))
    return Log(cases, types, len(texts) - len(types), without_key)


def _numbers(column: pa.ChunkedArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return a number for every value of a column without NULL, and how many there are."""
    coded = column.combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return np.asarray(coded.indices, np.int64), len(coded.dictionary)


def _types(columns: Columns, name: str) -> tuple[NDArray[np.int64], list[str]]:
    coded = columns.encoded(name).cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    texts: Any = coded.dictionary.to_pylist()
    return np.asarray(coded.indices.fill_null(OTHER), np.int64), texts


def _ranks(column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    return np.asarray(pc.rank(column.combine_chunks(), tiebreaker="dense"), np.int64)


def _labels(
    columns: Columns, names: Names, case: NDArray[np.int64], order: NDArray[np.int64], count: int
) -> NDArray[np.bool_]:
    if names.label is None:
        return np.zeros(count, np.bool_)
    column = columns.arrow(names.label)
    if not pa.types.is_boolean(column.type):
        message = f"the label `{names.label}` is of type {column.type}, not true or false"
        helps = ("compute a column that is true for the cases that you look for",)
        raise DataError([Diagnostic("E595", message, helps=helps)])
    said = np.asarray(column.combine_chunks().fill_null(False), np.bool_)[order]
    true = np.zeros(count, np.bool_)
    false = np.zeros(count, np.bool_)
    true[case[said]] = True
    false[case[~said]] = True
    if (true & false).any():
        several = int(np.count_nonzero(true & false))
        message = (
            f"the label `{names.label}` is true for some events of a case and not for others, in "
            f"{several:,} cases"
        )
        helps = ("give all events of a case the same label",)
        raise DataError([Diagnostic("E595", message, helps=helps)])
    return true


def _most_frequent(
    case: NDArray[np.int64], kind: NDArray[np.int64], texts: list[str], max_types: int
) -> tuple[str, ...]:
    """Choose the types that most cases have, equal ones by name."""
    known = kind != OTHER
    pairs = np.unique(case[known] * max(len(texts), 1) + kind[known])
    having = np.bincount(pairs % max(len(texts), 1), minlength=len(texts))
    ranked = sorted(zip(texts, having.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
    return tuple(text for text, _ in ranked[:max_types])


def _renumbered(
    kind: NDArray[np.int64], texts: list[str], types: tuple[str, ...]
) -> NDArray[np.int64]:
    """Give events the numbers of the types that are looked at; others are OTHER."""
    numbers = {text: number for number, text in enumerate(types)}
    # OTHER is -1, and so the last one.
    found = np.array([*(numbers.get(text, OTHER) for text in texts), OTHER], np.int64)
    return found[kind]
