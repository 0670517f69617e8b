"""The parameters of a query that are sent to every task."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from cepheid.events.nanoseconds import in_microseconds
from cepheid.expressions.own import OwnFunction, united
from cepheid.jobs.kind import Kind, kind_of
from cepheid.jobs.marks import Marks
from cepheid.plans.plan import Plan


class Work(msgspec.Struct, frozen=True):
    """The parameters of a query that are sent to every task."""

    kind: Kind
    plan: bytes
    events: bytes
    results: bytes
    buckets: int
    delay: int = 0
    """The delay of the watermark behind the latest event, in microseconds."""
    tick_ns: int = 1000
    """The unit of event times, in nanoseconds."""
    idle: int = 0
    """The silence of a source after which time goes on, in microseconds; 0 if it never does."""
    lateness: int = 0
    """The allowed lateness, in microseconds: later events no longer correct rows."""
    dead: tuple[str, ...] = ()
    """Columns that a state has and the query reads no more; new events have NULL there."""
    marks: Marks | None = None
    """Settings of rows that carry the watermark (§15.8); None if they do not."""
    functions: tuple[OwnFunction, ...] = ()
    """The functions of the user's own that the query calls; each takes its code along."""

    @staticmethod
    def of(
        plan: Plan,
        schema: pa.Schema,
        results: pa.Schema,
        buckets: int,
        *,
        delay: int = 0,
        idle: int = 0,
        lateness: int = 0,
    ) -> Work:
        """Build the work of a plan over events of a schema."""
        return Work(
            kind_of(plan),
            plan.to_json(),
            schema.serialize().to_pybytes(),
            results.serialize().to_pybytes(),
            buckets,
            delay,
            plan.tick_ns,
            idle,
            lateness,
            functions=plan.functions,
        )

    def calling(self, plans: Iterable[Plan], known: Iterable[OwnFunction] = ()) -> Work:
        """Take the functions of several queries along."""
        functions = united([self.functions, known, *(plan.functions for plan in plans)])
        return msgspec.structs.replace(self, functions=functions)

    def planned(self) -> Plan:
        """Deserialize the plan."""
        return self.kind.plans.from_json(self.plan)

    @property
    def time(self) -> str:
        """Return the name of the time column."""
        return self.planned().time

    @property
    def schema(self) -> pa.Schema:
        """Deserialize the schema of the events."""
        return pa.ipc.read_schema(pa.py_buffer(self.events))

    def shown(self, rows: pa.Table) -> pa.Table:
        """Cast rows to the types of the result; E514 if a time is no whole microsecond."""
        return in_microseconds(rows, self.result_schema)

    @property
    def result_schema(self) -> pa.Schema:
        """Deserialize the schema of the result."""
        return pa.ipc.read_schema(pa.py_buffer(self.results))
