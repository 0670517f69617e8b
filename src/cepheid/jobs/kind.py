"""The interface of a kind of query: runtimes ask it for jobs, and never check which kind it is.

Each kind has its own type of plan, and a subclass of ``Kind`` that knows how to run such a plan. A
``SteppedKind`` needs only a step function to run everywhere. Methods import their dependencies
lazily, because parsing and explaining a query needs neither Arrow nor numba.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, cast

import msgspec

from cepheid.expressions.own import united
from cepheid.jobs.explain_parts import Section, describe_columns
from cepheid.jobs.explain_spark import describe_strategies
from cepheid.jobs.misfits import misfit
from cepheid.jobs.picture import Graph
from cepheid.jobs.whole_times import with_whole_durations
from cepheid.language import tree
from cepheid.options import unused
from cepheid.plans.meaning import Meaning, differing, whole_meaning
from cepheid.plans.needs import LIVE_ON_DEVICE, Needs
from cepheid.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from cepheid.jobs.derived import Derivation, Splits
    from cepheid.jobs.device_jobs import DeviceJob
    from cepheid.jobs.local_jobs import LocalJob
    from cepheid.jobs.microbatch import LiveJob
    from cepheid.jobs.task_jobs import TaskJob
    from cepheid.jobs.work import Work
    from cepheid.patterns.thresholds import Threshold

PlanType = TypeVar("PlanType", bound=Plan)


class Described(NamedTuple):
    """A plan in words: what a result row is, and one titled section for each part of the plan."""

    title: str
    sections: list[Section]


class NamedType(NamedTuple):
    """A variable of a pattern and its type; ``required`` if every match has an event of the type.

    Where not all events are read, it is not ``known`` that no event has the type.
    """

    variable: str
    event_type: str
    required: bool
    known: bool = True


class Kind(ABC):
    """A kind of query. It is stateless, and is sent to tasks with their work."""

    plans: ClassVar[type[Plan]]
    """The type of its plans."""

    reads: ClassVar[type[tree.Query] | None] = None
    """The type of its parsed queries, if the language has any."""

    adapts_columns: ClassVar[bool] = False
    """Whether a changed query goes on although it reads other columns than the state has."""

    null_is_key: ClassVar[bool] = False
    """Whether events without a key form a group, as in SQL; otherwise they take part in nothing."""

    def compile(self, query: Any, text: str, source: Any) -> Plan:
        """Plan a parsed query; report all its mistakes at once (E2xx, E3xx, E4xx)."""
        raise AssertionError(query, text, source)

    @abstractmethod
    def describe(self, plan: Any, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""

    @abstractmethod
    def mermaid(self, plan: Any) -> str:
        """Draw a plan as a Mermaid flowchart."""

    def graphs(self, plan: Any) -> tuple[Graph, ...]:
        """Build the graphs of a plan that can be drawn as pictures; none by default."""
        del plan
        return ()

    @abstractmethod
    def local_job(self, plan: Any) -> LocalJob:
        """Create the job of a query over bounded input."""

    @abstractmethod
    def live_job(self, work: Work) -> LiveJob[Any]:
        """Create the job that a bucket of a live stream runs for a query."""

    def meaning(self, plan: Any) -> Meaning:
        """Collect the parts of a query that shape its state; a state of other parts is refused."""
        return whole_meaning(plan)

    def rows_meaning(self, plan: Any) -> str:
        """Serialize everything that shapes the rows of a query, whether or not its state does."""
        return whole_meaning(plan)["the query"]

    def shows_whole_events(self, plan: Any) -> bool:
        """Check whether rows show all columns of events, also those that are added later."""
        del plan
        return False

    def memory(self, plan: Any) -> Any:
        """Describe this query for a changed one that continues with its state."""
        del plan

    def continued(self, plan: Any, before: Meaning, memory: Any) -> Plan:
        """Adapt a plan to the state of an earlier query; E524 if it does not fit."""
        del memory
        if other := differing(before, self.meaning(plan)):
            what = plan.what.partition(" ")[2]
            why = f"the state belongs to another {what}: {other[0]} differs"
            raise misfit(why)
        return cast("Plan", plan)

    def with_evaluator(self, plan: Any, evaluator: str) -> Plan:
        """Replan a query for another evaluator (E591 if it has only one, ValueError if unfit)."""
        del evaluator
        unused("evaluator", f"{plan.what} has one evaluator")

    def why_not_on_device(self, plan: Any) -> str:
        """Explain why a query cannot run on a GPU in this process; empty if it can."""
        del plan
        return "only aggregates of matches run on a GPU"

    def device_job(self, plan: Any) -> DeviceJob:
        """Create the job that a GPU runs, if ``why_not_on_device`` has no reason against it."""
        raise AssertionError(plan)

    def why_not_live_on_device(self, plan: Any) -> str:
        """Explain why a live query cannot use a GPU in this process; empty if it can."""
        del plan
        return LIVE_ON_DEVICE

    def device_steps(self, plan: Any, schema: Any, *, forced: bool) -> Any:
        """Create the step function that a GPU runs, if nothing is against it."""
        raise AssertionError(plan, schema, forced)

    def keeps(self, plan: Any) -> Callable[[Any], Any] | None:
        """Build a function that marks the relevant events of columns; None if all are relevant."""
        del plan
        return None

    def sifts(self, plan: Any) -> Callable[[Any], Any] | None:
        """Build the function of ``keeps`` for a query that is worth it where events are read.

        None if its steps leave irrelevant events out as quickly.
        """
        del plan
        return None

    def alternatives(self, plan: Any) -> tuple[tuple[Threshold, ...], ...] | None:
        """List what an event must meet to be relevant: all comparisons of one of several lists.

        None if all events are relevant, or no comparison with a constant tells which are not.
        """
        del plan
        return None

    def event_types(self, plan: Any) -> tuple[str, ...] | None:
        """List the event types that a query names; None if it does not choose by type."""
        del plan
        return None

    def named_types(self, plan: Any) -> tuple[NamedType, ...]:
        """List the variables of patterns over typed events, also of negated patterns."""
        del plan
        return ()

    def encoded(self, plan: Any) -> tuple[str, ...]:
        """List the columns whose texts may be read as dictionaries; rows that show them decode."""
        del plan
        return ()

    def replay(self, plan: Any, snapshot: Any, method: str) -> Any:
        """Plan which part of a store a query must read."""
        from cepheid.store.replay_plan import full_replay

        del plan, method
        return full_replay(snapshot, "every event counts")

    def why_not(self, question: Any, counting: Any) -> Any:
        """Explain why a query finds no or few rows (``jobs/why.py``); None if rows say it all."""
        del question, counting

    def event_filters(self, question: Any) -> dict[str, list[Any]]:
        """Name the conditions that events pass one after the other, each with those before it."""
        del question
        return {}

    def partial_results(self, question: Any, counting: Any) -> list[str]:
        """Tell how many partial results a query has, if it has any."""
        del question, counting
        return []

    def stepped(self, plan: Any, schema: Any) -> Any:
        """Create the step function of a query, to measure its state; None if it has none."""
        del plan, schema

    def stage_steps(self, plan: Any, schema: Any) -> Any:
        """Create the step function of a query that is a stage of a pipeline."""
        return self.stepped(plan, schema)

    def derive(self, plan: Any) -> Derivation:
        """Plan a query whose rows are events; E412 to E415 if they have no time (§15.3)."""
        from cepheid.jobs.derived import untimed_rows

        untimed_rows(plan, f"{plan.what} cannot feed a stream", "read its rows from a sink")

    def splits(self, plan: Any) -> Splits:
        """List the attributes by which a stage of a pipeline can be split (§15.7)."""
        from cepheid.jobs.derived import Splits

        del plan
        return Splits(())

    def reach(self, plan: Any) -> int | None:
        """Return the largest distance of events that decide a row together; None if unbounded."""
        del plan
        return None

    def row_key(self, plan: Any) -> tuple[str, ...] | None:
        """List the columns that rows are known by (§18.6); None if all values are needed."""
        del plan
        return None

    def shows(self, plan: Any) -> frozenset[str]:
        """Name the attributes that all rows show (§18.6); AS may call another column like one."""
        return frozenset(one.inputs[0] for one in self.splits(plan).splits if one.outputs)

    def limits_rows(self, plan: Any) -> bool:
        """Check whether a query returns only some of its rows, by LIMIT."""
        return plan.limit is not None

    def why_not_repaired(self, plan: Any) -> str:
        """Explain why rows are computed anew after changes; empty if ``repairs`` repairs them."""
        return f"{plan.what} has nothing that a change could repair"

    def repairs(self, plan: Any, schema: Any) -> Any:
        """Create what repairs rows after changes (``jobs/changes/engine.py``)."""
        raise AssertionError(plan, schema)

    def check_live(self, plan: Any) -> None:
        """Refuse a plan that has no result before its stream ends (E405)."""
        del plan

    def lives_as_stage(self, plan: Any) -> bool:
        """Check whether a live stream runs the plan as the only stage of a pipeline."""
        del plan
        return False

    def from_index(self, plan: Any, snapshot: Any, method: str) -> Any:
        """Answer a query from the indexes of a store alone; None if events must be read."""
        del plan, snapshot, method


class TaskKind(Kind):
    """A kind whose jobs run inside Spark tasks, which Spark partitions as the jobs require.

    Other kinds run as Spark's own operators.
    """

    @abstractmethod
    def needs(self, plan: Any) -> Needs:
        """Describe the requirements of a query for a runtime that splits it into tasks."""

    @abstractmethod
    def task_job(self, work: Work) -> TaskJob:
        """Create the job that Spark tasks run for a query."""

    def pane_job(self, work: Work) -> LiveJob[Any]:
        """Create the job of a bucket that has some panes of a stream, if ``needs`` allows it."""
        raise AssertionError(work.plan)

    def rows_of_panes(self, work: Work, sent: list[pa.Table]) -> pa.Table:
        """Compute the rows from what such buckets sent in one micro-batch."""
        raise AssertionError(work.plan, sent)

    def describe(self, plan: Any, *, spark: bool) -> Described:
        """Describe a plan in words; ``spark`` adds how Spark runs it."""
        columns = [("columns", describe_columns(plan))]
        return Described(plan.what, columns + self.on_spark(plan, spark=spark))

    def on_spark(self, plan: Any, *, spark: bool) -> list[Section]:
        """Describe how Spark splits a query into tasks, if asked for."""
        return [("on Spark", describe_strategies(self.needs(plan)))] if spark else []

    def mermaid(self, plan: Any) -> str:
        """Draw a plan as a Mermaid flowchart."""
        return f'flowchart LR\n    events --> query["{plan.what}"] --> rows'

    def check(self, plan: Any) -> None:
        """Refuse a plan that cannot run, before any task starts (E404)."""
        self.needs(plan)

    def check_live(self, plan: Any) -> None:
        """Refuse a plan that has no result before its stream ends (E405)."""
        self.check(plan)

    def why_no_versions(self, plan: Any) -> str:
        """Say why late events change rows as changes do (§18), not by versions; empty else."""
        return f"{plan.what} has no rows that a correction could find by group and window"

    def check_corrections(self, plan: Any) -> None:
        """Refuse a plan whose corrected rows would have no names for their versions (E407)."""

    def fits(self, plan: Any, columns: Mapping[str, Any]) -> Any:
        """Build a Spark condition that holds for every relevant event; None if all are relevant."""
        del plan, columns


_KINDS: dict[type[Plan], Kind] = {}


def register(kind: Kind) -> None:
    """Register a kind, so that its plans can run."""
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
    plan = kind.compile(with_whole_durations(query, source), text, source)
    if not source.functions:
        return plan
    functions = united([plan.functions, tree.own_functions(query)])
    return msgspec.structs.replace(plan, functions=functions) if functions else plan


def kind_of(plan: Plan) -> Kind:
    """Look up the kind of a plan."""
    return _KINDS[type(plan)]


def task_kind(plan: Plan) -> TaskKind:
    """Look up a kind whose jobs run in tasks; the caller has checked that it is one."""
    kind = kind_of(plan)
    assert isinstance(kind, TaskKind), "Spark runs it with operators of its own"
    return kind


def needs_of(plan: Plan) -> Needs:
    """Describe the requirements of a query for a runtime that splits it into tasks."""
    return task_kind(plan).needs(plan)
