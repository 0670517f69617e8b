"""Keep the parts that runs of one plan share: names of its patterns, and jobs that are at rest.

A call over a hundred events takes less time than to build the program of its query. So a job is
kept when its run has ended, and the next run takes it. Only one run has a job at a time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from cepheid.jobs.kind import NamedType, kind_of
from cepheid.plans.plan import Plan

if TYPE_CHECKING:
    from cepheid.jobs.local_jobs import LocalJob

KEPT_ROWS = 1 << 14
"""Jobs have buffers for the largest batch so far; those of larger runs are not kept."""

_IDLE_MAX = 8
"""So many threads that run one query find a job at rest."""
_KEPT = "_prepared"
"""The attribute of a planned query; it is no part of the query's value."""


class HasPlan(Protocol):
    """A planned query."""

    @property
    def plan(self) -> Plan:
        """Return the plan."""


class Prepared:
    """The parts that the runs of one plan share.

    Examples
    --------
    >>> import cepheid
    >>> planned = cepheid.query("RETURN COUNT(*) PATTERN SEQ(A, B)")
    >>> prepared = prepared_of(planned)
    >>> first, second = prepared.take(), prepared.take()
    >>> prepared.put_back(first)
    >>> first is second, prepared.take() is first, prepared_of(planned) is prepared
    (False, True, True)
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        # Appending to a list and taking its end are single steps, whichever threads do it.
        self._idle: list[LocalJob] = []
        self.usual_types: frozenset[str] | None = None
        """Types of events of which nothing was odd."""

    @cached_property
    def named_types(self) -> tuple[NamedType, ...]:
        """List the variables of patterns with their types."""
        return kind_of(self.plan).named_types(self.plan)

    @cached_property
    def names(self) -> frozenset[str]:
        """Collect the types and variables of patterns."""
        return frozenset(name for one in self.named_types for name in one[:2])

    def take(self) -> LocalJob:
        """Return a job that nobody else has."""
        try:
            return self._idle.pop()
        except IndexError:
            return kind_of(self.plan).local_job(self.plan)

    def put_back(self, job: LocalJob) -> None:
        """Keep a job whose run has ended without an error."""
        if len(self._idle) < _IDLE_MAX:
            self._idle.append(job)


def prepared_of(planned: HasPlan) -> Prepared:
    """Return the shared parts of a planned query, which are kept beside the query's value."""
    kept: dict[str, Prepared] | None = getattr(planned, "__dict__", None)
    if kept is None:
        return Prepared(planned.plan)
    found = kept.get(_KEPT)
    return kept.setdefault(_KEPT, Prepared(planned.plan)) if found is None else found
