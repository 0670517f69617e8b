"""Rows as events of a derived stream: their times, and the keys that rows have (§15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, runtime_checkable

from cepheid.errors import Diagnostic, UnsupportedError
from cepheid.plans.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

TIME = "__time"
"""A column that a stage adds to its rows where none of them is the time of its events."""

STREAM = "__stream"
"""The place of an event's stream among those that a join reads."""

MATCH_ID = "match_id"
"""Numbers of rows, which depend on how a query is cut into tasks."""


class Derivation(NamedTuple):
    """A query whose rows are events: its plan, and the columns whose maximum is their time.

    ``hidden`` columns are no attributes. Without ``at_end``, rows that only the end of the stream
    gives are no events. Rows are certain ``delay`` ticks after these times. ``at`` says in words
    when an event is, if its columns do not.
    """

    plan: Plan
    times: tuple[str, ...]
    hidden: tuple[str, ...] = (MATCH_ID,)
    at_end: bool = True
    delay: int = 0
    at: str = ""


@runtime_checkable
class FeedsStreams(Protocol):
    """A kind of query whose rows have times, so that they can carry the watermark (§15.8)."""

    def rows_behind(self, plan: Any, schema: pa.Schema) -> int:
        """Compute how far behind the watermark rows may still come, in ticks."""


class Split(NamedTuple):
    """An attribute by which a query can be split: each row is about events with one value of it.

    ``inputs`` is its name in each of the streams that are read, one name for all of them alike;
    ``outputs`` are the columns of rows that hold it.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Splits(NamedTuple):
    """The attributes by which a query can be split; ``by_row`` if it looks at one event a row."""

    splits: tuple[Split, ...]
    by_row: bool = False


def no_window(plan: Plan, what: str, way_out: str) -> NoReturn:
    """Refuse a stage whose rows are known at the end of the stream (E412)."""
    message = f"{what}, so its rows have no time and cannot feed a stream"
    raise UnsupportedError([Diagnostic("E412", message, helps=(way_out,))], plan.text)


def early_rows(plan: Plan) -> NoReturn:
    """Refuse a stage whose rows are replaced by later ones (E413)."""
    message = "rows of `EMIT EARLY` are replaced later, and an event cannot be taken back"
    helps = ("leave `EMIT EARLY` out of the queries of a pipeline",)
    raise UnsupportedError([Diagnostic("E413", message, helps=helps)], plan.text)


def whole_answer(plan: Plan) -> NoReturn:
    """Refuse a stage whose rows are ordered, or counted, among all rows (E414)."""
    message = "`ORDER BY` and `LIMIT` need the whole answer, and the rows of a stage leave before"
    helps = ("order and limit the rows where you read them",)
    raise UnsupportedError([Diagnostic("E414", message, helps=helps)], plan.text)


def limited_rows(plan: Plan) -> NoReturn:
    """Refuse a stage that ends after some rows (E414)."""
    message = "`LIMIT` ends a query, and a stream goes on"
    helps = ("leave `LIMIT` out of queries that feed streams",)
    raise UnsupportedError([Diagnostic("E414", message, helps=helps)], plan.text)


def untimed_rows(plan: Plan, what: str, *ways_out: str) -> NoReturn:
    """Refuse a stage whose rows tell no time (E415)."""
    raise UnsupportedError([Diagnostic("E415", what, helps=ways_out)], plan.text)
