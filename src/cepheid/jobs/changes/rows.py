"""Rows before and after changes in, a changelog of rows out (§18.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.jobs.changes.asked import OP, ROW_ID
from cepheid.jobs.changes.hashing import Lane, hash_rows, texts_of
from cepheid.jobs.derived import MATCH_ID

INSERT, UPDATE, DELETE = "insert", "update", "delete"

Lanes = tuple[Lane, Lane]


def changelog_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of a changelog of rows."""
    head = [pa.field(OP, pa.string()), pa.field(ROW_ID, pa.string())]
    return pa.schema([*head, *(field for field in rows if field.name != MATCH_ID)])


def changelog(before: pa.Table, after: pa.Table, key: tuple[str, ...] | None) -> pa.Table:
    """Compare rows: tell those that are gone, new, or have other values; deletes come first.

    ``key`` are the columns that rows are known by; without them, rows are known by all values.
    """
    schema = changelog_schema(after.schema)
    names = schema.names[2:]
    tables = [table.select(names) for table in (before, after)]
    sizes = [len(table) for table in tables]
    if not sum(sizes):
        return schema.empty_table()
    whole = pa.concat_tables(tables, promote_options="permissive")
    content = hash_rows(whole.columns, len(whole))
    known = content if key is None else hash_rows([whole[n] for n in key], len(whole))
    side = np.repeat([0, 1], sizes)
    ids = _numbered(known, content, side)
    order = np.lexsort((side, ids[1], ids[0]))
    pairs = _equal_next(ids, order)
    # The first of each pair is a row before, and the second the same row after.
    old, new = order[:-1][pairs], order[1:][pairs]
    alone = np.ones(len(order), np.bool_)
    alone[old] = alone[new] = False
    updated = new[(content[0][old] != content[0][new]) | (content[1][old] != content[1][new])]
    deleted = np.flatnonzero(alone & (side == 0))
    inserted = np.flatnonzero(alone & (side == 1))
    chosen = np.concatenate([deleted, np.sort(np.concatenate([updated, inserted]))])
    ops = np.full(len(whole), 1, np.int8)
    ops[deleted], ops[inserted] = 2, 0
    texts = pa.array([INSERT, UPDATE, DELETE])
    columns: list[Any] = [
        texts.take(pa.array(ops[chosen])),
        texts_of((ids[0][chosen], ids[1][chosen])),
    ]
    told = whole.take(chosen)
    return pa.table([*columns, *told.columns], names=schema.names).cast(schema)


def _numbered(known: Lanes, content: Lanes, side: NDArray[np.int64]) -> Lanes:
    """Add to each key the how many-th row of it this is, before and after alike.

    Rows of one key are numbered in the order of their values, so that the number does not depend
    on the order of rows.
    """
    order = np.lexsort((content[1], content[0], side, known[1], known[0]))
    same = (known[0][order][1:] == known[0][order][:-1]) & (
        known[1][order][1:] == known[1][order][:-1]
    )
    same &= side[order][1:] == side[order][:-1]
    if not same.any():
        return known
    place = np.arange(len(order))
    first = np.maximum.accumulate(np.where(np.concatenate([[True], ~same]), place, 0))
    number = np.empty(len(order), np.int64)
    number[order] = place - first
    later = number > 0
    again = hash_rows([pa.array(known[0]), pa.array(known[1]), pa.array(number)], len(number))
    return tuple(np.where(later, b, a) for a, b in zip(known, again, strict=True))  # type: ignore[return-value]  # of two


def _equal_next(ids: Lanes, order: NDArray[Any]) -> NDArray[np.bool_]:
    one, two = ids[0][order], ids[1][order]
    return np.asarray((one[1:] == one[:-1]) & (two[1:] == two[:-1]))
