"""A kind of query, as runtimes see it: they ask it for jobs, and never which kind it is.

A kind has a type of plan of its own, and a subclass of ``Kind`` that says how such a plan runs. Of
one that is a ``SteppedKind``, the step function is enough to run everywhere. Methods import what
they need, because reading and explaining a query needs neither Arrow nor numba.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from cepheid.jobs.explain_parts import Section, describe_columns
from cepheid.jobs.explain_spark import describe_strategies
from cepheid.language import tree
from cepheid.options import unused
from cepheid.plans.needs import Needs
from cepheid.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work

PlanType = TypeVar("PlanType", bound=Plan)


class Described(NamedTuple):
    """A plan in words: what its rows are, and a title with lines for each of its parts."""

    title: str
    sections: list[Section]


class Kind(ABC):
    """A kind of query. It has no state, and travels to tasks with their work."""

    plans: ClassVar[type[Plan]]
    """The type of its plans."""

    reads: ClassVar[type[tree.Query] | None] = None
    """The type of its parsed queries, if the language has any."""

    def compile(self, query: Any, text: str, source: Any) -> Plan:
        """Plan a parsed query; all its mistakes are reported at once (E2xx, E3xx, E4xx)."""
        raise AssertionError(query, text, source)

    @abstractmethod
    def describe(self, plan: Any, *, spark: bool) -> Described:
        """Describe a plan in words, with ``spark`` also how it runs there."""

    @abstractmethod
    def mermaid(self, plan: Any) -> str:
        """Draw a plan as a Mermaid flowchart."""

    @abstractmethod
    def local_job(self, plan: Any) -> LocalJob:
        """Make the job of a query over events that are all there."""

    @abstractmethod
    def live_job(self, work: Work) -> LiveJob[Any]:
        """Make what a bucket of a live stream does for a query."""

    def with_evaluator(self, plan: Any, evaluator: str) -> Plan:
        """Plan a query for another evaluator (E591 if the kind has one, ValueError if unfit)."""
        del evaluator
        unused("evaluator", f"{plan.what} has one evaluator")

    def why_not_on_device(self, plan: Any) -> str:
        """Tell why a query cannot run on a GPU in this process, or nothing if it can."""
        del plan
        return "only aggregates of matches run on a GPU"

    def keeps(self, plan: Any) -> Callable[[Any], Any] | None:
        """Give a function that marks the events of consequence in columns; None if all are."""
        del plan
        return None

    def replay(self, plan: Any, snapshot: Any, method: str) -> Any:
        """Find out which part of a store a query must read."""
        from cepheid.store.replay_plan import full_replay

        del plan, method
        return full_replay(snapshot, "every event counts")

    def from_index(self, plan: Any, snapshot: Any, method: str) -> Any:
        """Answer a query from the indexes of a store alone; None if events must be read."""
        del plan, snapshot, method


class TaskKind(Kind):
    """A kind whose jobs run inside tasks of Spark, which cuts their work as they need it.

    Spark runs the others with operators of its own.
    """

    @abstractmethod
    def needs(self, plan: Any) -> Needs:
        """Tell what a query asks of a runtime that cuts its work."""

    @abstractmethod
    def task_job(self, work: Work) -> TaskJob:
        """Make what tasks of Spark do for a query."""

    def describe(self, plan: Any, *, spark: bool) -> Described:
        """Describe a plan in words, with ``spark`` also how it runs there."""
        columns = [("columns", describe_columns(plan))]
        return Described(plan.what, columns + self.on_spark(plan, spark=spark))

    def on_spark(self, plan: Any, *, spark: bool) -> list[Section]:
        """Describe how Spark cuts a query, if that is asked for."""
        return [("on Spark", describe_strategies(self.needs(plan)))] if spark else []

    def mermaid(self, plan: Any) -> str:
        """Draw a plan as a Mermaid flowchart."""
        return f'flowchart LR\n    events --> query["{plan.what}"] --> rows'

    def check(self, plan: Any) -> None:
        """Refuse a plan that cannot be run, before any task starts (E404)."""
        self.needs(plan)

    def check_live(self, plan: Any) -> None:
        """Refuse a plan that has no result before its stream ends (E405)."""
        self.check(plan)

    def fits(self, plan: Any, columns: Mapping[str, Any]) -> Any:
        """Give a condition of Spark that every event of consequence meets; None if all do."""
        del plan, columns


_KINDS: dict[type[Plan], Kind] = {}


def register(kind: Kind) -> None:
    """Make a kind known, so that its plans can be run."""
    _KINDS[kind.plans] = kind


def compile_query(query: tree.Query, text: str, source: Any) -> Plan:
    """Plan a parsed query.

    Raises
    ------
    BindError
        With every mistake of the query, ten at most.
    UnsupportedError
        If the query is right but asks for something that does not exist yet.
    """
    kind = next(kind for kind in _KINDS.values() if kind.reads is type(query))
    return kind.compile(query, text, source)


def kind_of(plan: Plan) -> Kind:
    """Look up the kind of a plan."""
    return _KINDS[type(plan)]


def task_kind(plan: Plan) -> TaskKind:
    """Look up a kind whose jobs run in tasks; whoever calls this has asked before."""
    kind = kind_of(plan)
    assert isinstance(kind, TaskKind), "Spark runs it with operators of its own"
    return kind


def needs_of(plan: Plan) -> Needs:
    """Tell what a query asks of a runtime that cuts its work."""
    return task_kind(plan).needs(plan)
