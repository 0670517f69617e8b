"""A kind of query that is defined outside of Cepheid: it numbers the events of each key."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from cepheid.events.time_formats import TextTimes
from cepheid.jobs.microbatch import Size
from cepheid.jobs.stepped import SteppedKind
from cepheid.plans.needs import Needs, needs_by_key
from cepheid.plans.plan import Choice, Evaluator, Granularity, Partition, Plan

_FIELDS: dict[str, pa.DataType] = {"key": pa.string(), "number": pa.int64()}
ROWS = pa.schema(_FIELDS)


class ToyPlan(Plan, frozen=True, kw_only=True, tag="toy"):
    key: str

    @property
    def what(self) -> str:
        return "a toy"


class ToySteps(NamedTuple):
    plan: ToyPlan
    batch_rows: int = 3

    def start(self) -> Counter[str]:
        return Counter()

    def step(self, state: Counter[str], events: pa.Table) -> tuple[Counter[str], pa.Table]:
        seen, rows = Counter(state), []
        for key in map(str, events[self.plan.key].to_pylist()):
            seen[key] += 1
            rows.append({"key": key, "number": seen[key]})
        return seen, pa.Table.from_pylist(rows, ROWS)

    def advance(self, state: Counter[str], until: int) -> tuple[Counter[str], pa.Table]:
        return state, self.nothing()

    def finish(self, state: Counter[str]) -> tuple[Counter[str], pa.Table]:
        return state, self.nothing()

    def forget(self, state: Counter[str], until: int) -> Counter[str]:
        return state

    def nothing(self) -> pa.Table:
        return ROWS.empty_table()

    def read(self, data: bytes) -> Counter[str]:
        return Counter(msgspec.json.decode(data))

    def write(self, state: Counter[str]) -> bytes:
        return msgspec.json.encode(state)

    def size(self, state: Counter[str]) -> Size:
        return Size(len(state), 0)


class ToyKind(SteppedKind):
    plans = ToyPlan

    def needs(self, plan: ToyPlan) -> Needs:
        return needs_by_key((plan.key,), "an event has a number among those of its key")

    def steps(self, plan: ToyPlan, schema: pa.Schema) -> ToySteps:
        return ToySteps(plan)


class ToyQuery(NamedTuple):
    """What a runtime needs of a query."""

    plan: ToyPlan
    times: TextTimes = TextTimes("ts")

    def with_schema(self, schema: Any) -> ToyQuery:
        return self


def toy_query(key: str) -> ToyQuery:
    choice = Choice(Evaluator.LINEAR, Granularity.EVENT, "a toy", None, "O(n)", "O(keys)")
    plan = ToyPlan(
        text="NUMBER EVENTS",
        time="ts",
        type=None,
        tiebreak=(),
        partition=Partition((key,), (), (), "the toy"),
        choice=choice,
        columns=("ts", key),
        warnings=(),
        key=key,
    )
    return ToyQuery(plan)
