"""Go on with the state of an earlier query, if it holds what the changed one needs.

A bucket has the meaning of the query that wrote it: the parts that shape its state. The kind of
query adapts the new plan to it, or refuses. Columns that the new query reads no more stay in the
state, as NULL for new events, and are dead: no later query can read them again. Columns that the
source has now and that whole events show are NULL in events of the state.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec
import pyarrow as pa

from cepheid.decoding import from_json
from cepheid.jobs.bucket import Saved
from cepheid.jobs.misfits import misfit
from cepheid.jobs.state_format import meaning_by
from cepheid.jobs.work import Work

JobType = TypeVar("JobType")


@runtime_checkable
class Continues(Protocol):
    """A job that goes on with the state of an earlier query, by an adapted plan."""

    def with_work(self, work: Work) -> Any:
        """Create the same job for other work."""


def continued(job: JobType, work: Work, saved: Saved | None, kind: str) -> tuple[JobType, Work]:
    """Adapt a job and its work to the state of a bucket.

    Raises
    ------
    DataError
        E524 if the state does not hold what the query needs.
    """
    if saved is None or not saved.means or saved.kind != kind or not isinstance(job, Continues):
        return job, work
    same = saved.means == meaning_by(work.kind, work.planned()) and saved.columns == work.events
    if same and not saved.dead:
        return job, work
    adapted = _adapted(work, saved.means, saved.memory, saved.columns, saved.dead)
    return job.with_work(adapted), adapted


@lru_cache(maxsize=64)
def _adapted(work: Work, means: str, memory: bytes, columns: bytes, dead: tuple[str, ...]) -> Work:
    before = from_json(means, dict[str, str])
    plan = work.kind.continued(work.planned(), before, msgspec.msgpack.decode(memory))
    adapted = msgspec.structs.replace(work, plan=plan.to_json())
    if not work.kind.adapts_columns:
        return adapted
    held = pa.ipc.read_schema(pa.py_buffer(columns))
    for field in work.schema:
        if field.name in held.names and held.field(field.name).type != field.type:
            why = f"the column `{field.name}` has another type"
            raise misfit(why)
    if work.kind.shows_whole_events(plan):
        return adapted if set(held.names) <= set(work.schema.names) else _refuse_gone(held, work)
    for field in work.schema:
        if field.name not in held.names or field.name in dead:
            why = f"the query now reads the column `{field.name}`, which the state does not hold"
            raise misfit(why)
    gone = tuple(name for name in held.names if name not in work.schema.names)
    return msgspec.structs.replace(adapted, events=columns, dead=gone)


def _refuse_gone(held: pa.Schema, work: Work) -> Work:
    gone = next(name for name in held.names if name not in work.schema.names)
    why = f"the events have no column `{gone}` any more, which its rows show"
    raise misfit(why)
