"""The relation of a FROM: a table, and how a query names its columns.

The columns of the table have names of their own, which no two of a query share, so that tables
with equal names of columns can stand beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

import msgspec
import pyarrow as pa

from cepheid.errors import BindError, Diagnostic, Span, suggest_names
from cepheid.expressions.arrow import Value
from cepheid.kinds.row_pattern import tree
from cepheid.kinds.row_pattern.computed import field_of
from cepheid.kinds.row_pattern.window_sites import COLUMN


class Place(NamedTuple):
    """A column: what may stand before its name, the name, and the column of the table.

    ``hidden`` is a key of USING that another column shows: it has to be named with its table.
    """

    owner: str
    name: str
    column: str
    hidden: bool = False


class Scope(NamedTuple):
    """The columns that a query can name, in order."""

    places: tuple[Place, ...]
    text: str = ""

    @property
    def shown(self) -> list[Place]:
        """List the columns that ``*`` stands for."""
        return [place for place in self.places if not place.hidden]

    def of(self, owner: str) -> list[Place]:
        """List the columns of one table.

        Raises
        ------
        BindError
            E603 if there is no such table.
        """
        found = [place for place in self.places if _same(place.owner, owner)]
        if not found:
            self._refuse_table(owner, None)
        return found

    def bound(self, node: tree.Expression) -> tree.Expression:
        """Replace the names in an expression by columns of the table."""
        if isinstance(node, tree.Column):
            return self.column(node)
        return tree.with_children(node, tuple(map(self.bound, tree.children(node))))

    def column(self, node: tree.Column) -> tree.RowColumn | tree.RowField:
        """Find the column, or the field of one, that a name means.

        Raises
        ------
        BindError
            E603 if there is none, or more than one.
        """
        before, fields = node.qualifier, node.fields
        if before is None:
            place = self._only(node.name, self.shown, node)
        elif any(_same(place.owner, before) for place in self.places):
            place = self._only(node.name, self.of(before), node)
        else:
            # No table is called so: it is a column with fields.
            holds = [place for place in self.shown if _same(place.name, before)]
            if not holds:
                self._refuse_table(before, node.span)
            place, fields = self._only(before, holds, node), (node.name, *fields)
        if fields:
            return tree.RowField(place.column, fields, span=node.span)
        return tree.RowColumn(place.column, span=node.span)

    def _only(self, name: str, places: Sequence[Place], node: tree.Column) -> Place:
        found = [p for p in places if p.name == name]
        found = found or [p for p in places if _same(p.name, name)]
        if len(found) == 1:
            return found[0]
        if found:
            message = f"the query has {len(found)} columns `{name}`"
            named = [f"`{p.owner}.{p.name}`" for p in found if p.owner]
            told = len(set(named)) == len(found)
            help_ = f"name its table: {' or '.join(named)}" if told else "rename one with AS"
        else:
            message = f"there is no column `{name}`"
            # A column for a call over a window has no name that a user knows.
            shown = [p.name for p in places if not p.name.startswith(COLUMN)]
            help_ = suggest_names(name, shown, owner="the table")
        raise BindError([Diagnostic("E603", message, node.span, helps=(help_,))], self.text)

    def _refuse_table(self, owner: str, span: Span | None) -> NoReturn:
        if span is not None:
            # As it is written: names without quotes are read in capitals.
            owner = self.text[span.start : span.end].partition(".")[0].strip('`" ')
        message = f"no table or column of the query is called `{owner}`"
        owners = list(dict.fromkeys(p.owner for p in self.places if p.owner))
        names = list(dict.fromkeys(p.name for p in self.shown))
        near = suggest_names(owner, owners or names, owner="the query")
        raise BindError([Diagnostic("E603", message, span, helps=(near,))], self.text)


class Relation(NamedTuple):
    """A table and the names of its columns."""

    table: pa.Table
    scope: Scope

    @staticmethod
    def of(table: pa.Table, owner: str, begin: int, text: str) -> Relation:
        """Name the columns of a table; their own names count from ``begin`` on."""
        columns = [f"column {begin + i}" for i in range(table.num_columns)]
        names = zip(table.column_names, columns, strict=True)
        scope = Scope(tuple(Place(owner, name, column) for name, column in names), text)
        return Relation(table.rename_columns(columns), scope)

    def leaf(self, node: tree.Expression) -> Value:
        """Return the column of a bound expression, as one array."""
        return leaf_of(self.table, node, self.scope)


def leaf_of(table: pa.Table, node: tree.Expression, scope: Scope) -> Value:
    """Return the column, or the field of one, that a bound leaf means."""
    if isinstance(node, tree.RowField):
        shown = next(p.name for p in scope.places if p.column == node.column)
        named = msgspec.structs.replace(node, column=shown)
        return field_of(named, plain_column(table.column(node.column)), "")
    assert isinstance(node, tree.RowColumn), "an expression over rows has no other leaf"
    return plain_column(table.column(node.name))


def plain_column(column: Value) -> Value:
    """Convert a column to one array without a dictionary."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    # Putting chunks together copies them, even a single one.
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array


def columns_in(nodes: Iterable[tree.Expression]) -> set[str]:
    """Collect the columns that bound expressions read."""
    found = set()
    for node in nodes:
        for part in tree.walk(node):
            if isinstance(part, tree.RowColumn):
                found.add(part.name)
            elif isinstance(part, tree.RowField):
                found.add(part.column)
    return found


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
