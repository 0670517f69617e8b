"""The option ``changes``: which columns of a changelog tell what a change does, and to which event.

This needs no Arrow: options are checked before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Never

from cepheid.errors import DataError, Diagnostic, UnsupportedError, suggest_names
from cepheid.jobs.kind import kind_of
from cepheid.options import names_in, refuse, texts
from cepheid.plans.plan import Plan

OP, ROW_ID = "op", "row_id"
"""The columns that a changelog of rows has beside those of the rows."""

FEED = ("_commit_version", "_commit_timestamp")
"""Columns in which a change feed tells of the change itself; they are no attributes (§18.2)."""

PARTS = ("op", "id", "order")


class Changes(NamedTuple):
    """The columns of a changelog: the operation, the id of an event, and the order of changes."""

    op: str
    id: tuple[str, ...] = ()
    order: tuple[str, ...] = ()

    @property
    def only_adds(self) -> bool:
        """Check whether there is no operation: every change adds an event."""
        return not self.op

    @staticmethod
    def of(value: object) -> Changes | None:
        """Read the option: the name of the operation's column, or a dict of all of them.

        Raises
        ------
        OptionError
            E590 for an unknown part, E592 for one of the wrong type.

        Examples
        --------
        >>> Changes.of({"op": "op", "id": ["trade_id"]})
        Changes(op='op', id=('trade_id',), order=())
        """
        if value is None or isinstance(value, Changes):
            return value
        if isinstance(value, str):
            return Changes(value)
        if not isinstance(value, Mapping):
            kind = type(value).__name__
            help_ = 'changes={"op": "op", "id": ["trade_id"]}'
            message = f"changes is the name of a column or a dict, not {kind}"
            refuse("E592", message, help_)
        for name in value:
            if name not in PARTS:
                refuse("E590", f"a part of changes is one of {', '.join(PARTS)}, not {name!r}")
        if "op" not in value:
            refuse("E592", "changes lacks `op`, the column of the operation")
        texts(**{"op of changes": value["op"]})
        given = {name: value.get(name) or () for name in PARTS[1:]}
        lists = {n: names_in(f"{n} of changes", columns) for n, columns in given.items()}
        return Changes(value["op"], **lists)

    def attributes(self, names: Iterable[str]) -> list[str]:
        """List the columns of a changelog that are attributes of its events (§18.5)."""
        if self.only_adds:
            return [*names]
        return [name for name in names if name != self.op and name not in FEED]

    def identity(self, names: Iterable[str]) -> list[str]:
        """List the columns that tell events apart (§18.2)."""
        return list(self.id) if self.id else self.attributes(names)

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse a changelog that lacks a column.

        Raises
        ------
        DataError
            E505.
        """
        given = list(names)
        for name in (self.op, *self.id, *self.order):
            if name and name not in given:
                helps = (suggest_names(name, given, owner="the changelog"),)
                message = f"the changelog has no column `{name}`"
                raise DataError([Diagnostic("E505", message, helps=helps)])


ADDED = Changes("")
"""A changelog of events that come and stay, as late events do that correct rows (§13.5)."""


def check_changelog(plan: Plan, names: Iterable[str]) -> None:
    """Refuse a query whose rows cannot be told as a changelog (§18.8).

    Raises
    ------
    UnsupportedError
        E433.
    """
    if kind_of(plan).limits_rows(plan):
        _refuse(plan, "a row of `LIMIT` is any of the rows, and none can take its place", "LIMIT")
    if plan.emits_early:
        _refuse(plan, "rows of open windows are told anyway", "EMIT EARLY")
    check_streams(plan)
    for name in names:
        if name in (OP, ROW_ID):
            message = f"a changelog of rows has a column `{name}` of its own"
            helps = (f"rename the column: `... AS my_{name}`",)
            raise UnsupportedError([Diagnostic("E433", message, helps=helps)], plan.text)


def check_streams(plan: Plan) -> None:
    """Refuse a join: it has two tables, and the option tells of one (E433)."""
    if len(plan.streams) > 1:
        message = "a join reads two streams, and `changes` tells of one"
        helps = ("join the current tables, without `changes`",)
        raise UnsupportedError([Diagnostic("E433", message, helps=helps)], plan.text)


def _refuse(plan: Plan, message: str, clause: str) -> Never:
    helps = (f"leave `{clause}` out",)
    raise UnsupportedError([Diagnostic("E433", message, helps=helps)], plan.text)
