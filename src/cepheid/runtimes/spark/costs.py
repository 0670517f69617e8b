"""Estimate the seconds of every strategy of a query on Spark, from facts about its events.

A stage takes as long as its work on all cores, at least as long as its largest task, and some more
for the last task; stages follow one another. The unit costs are those of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Needs, Strategy
from cepheid.plans.plan import Evaluator, Plan, TrendPlan
from cepheid.runtimes.task_rates import TaskRates

TASKS_PER_CORE = (1, 2, 4, 8)
"""Numbers of tasks that are considered, for each core; also one task alone."""

LAST_TASK = 0.3
"""The share of a task for which other cores wait at the end of a stage."""

REACHES_MIN = 2
"""The minimum ratio of a range of time to the margin that its task also reads."""

RAW_EVENTS = 16
"""Events for each matrix below which tasks shuffle events (``kinds/trend/tasks.py``)."""

COMPARED_NS = 2.0
"""To compare two events, for evaluators that look at all pairs."""

ENGINE = {
    Evaluator.LINEAR: "linear_ns",
    Evaluator.INDEXED: "indexed_ns",
    Evaluator.PREVIOUS: "previous_ns",
}
UNBOUNDED = (Evaluator.PAIRWISE, Evaluator.ENUMERATE, Evaluator.PIPELINE)
"""Evaluators whose time does not follow from the number of events: all cores are used."""


class Facts(NamedTuple):
    """Facts about the events that decide how long a strategy takes.

    Attributes
    ----------
    rows, columns, span
        Events, columns that are read, and ticks from the first event to the last.
    cores, given
        Cores of the cluster, and the number of tasks if the user chose it.
    partitions, in_order
        Partitions of the DataFrame, and whether they are ranges of time.
    pairs
        Pairs of a key and a pane, for each event.
    spread, ratio
        The number of tasks for which keys were counted, and the ratio of the largest to the mean.
    slices
        The most slices that files can be cut into; 0 for DataFrames.
    profiled
        Whether the times of partitions are known; else looking at them costs a pass.
    """

    rows: int
    columns: int
    span: int
    cores: int
    given: int | None = None
    partitions: int = 1
    in_order: bool = False
    pairs: float = 0.0
    spread: int = 0
    ratio: float = 1.0
    slices: int = 0
    profiled: bool = True


class Estimate(NamedTuple):
    """The seconds of a strategy with a number of tasks, and what they are made of."""

    strategy: Strategy
    tasks: int
    parts: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        """Add up the parts."""
        return sum(seconds for _, seconds in self.parts)

    def __str__(self) -> str:
        parts = ", ".join(f"{seconds:.2f} {name}" for name, seconds in self.parts)
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks} tasks"
        return f"{self.strategy.value}: {self.seconds:.2f} s with {tasks}: {parts}"


class _Costs:
    """The work of the parts of a plan, in seconds of one core."""

    def __init__(self, plan: Plan, facts: Facts, rates: TaskRates) -> None:
        self.plan, self.facts, self.rates = plan, facts, rates
        self.needs = needs_of(plan)

    def stage(self, work: float, tasks: int, ratio: float = 1.0) -> float:
        """Estimate the seconds of a stage with this work in all."""
        cores, one = self.facts.cores, work / tasks
        waves = -(-tasks // cores)
        busy = max(ratio * one, work / min(tasks, cores)) + LAST_TASK * one
        start = self.rates.stage_ms + waves * self.rates.task_ms + tasks * self.rates.driver_ms
        return start / 1e3 + busy

    def times(self) -> float:
        """Estimate the pass over times, if it is still to come."""
        return 0.0 if self.facts.profiled else self.passing(1)

    def passing(self, columns: int) -> float:
        """Estimate a pass of the JVM over some columns, before anything else runs."""
        facts = self.facts
        work = facts.rows * columns * self.rates.scan_ns / 1e9
        return 2 * self.rates.stage_ms / 1e3 + work / min(facts.cores, facts.partitions)

    def values(self, ns: float, growth: float = 1.0) -> float:
        """Estimate work on every value of every event."""
        return self.facts.rows * growth * self.facts.columns * ns / 1e9

    def engine(self, growth: float = 1.0) -> float:
        """Estimate the work of the evaluator on all events."""
        ns: float = getattr(self.rates, ENGINE.get(evaluator_of(self.plan), "other_ns"))
        if evaluator_of(self.plan) in UNBOUNDED and isinstance(self.plan, TrendPlan):
            share = self.plan.window.within / max(self.facts.span, 1)
            ns += COMPARED_NS * self.facts.rows * min(share or 1.0, 1.0)
        return self.facts.rows * growth * ns / 1e9

    def summaries(self, tasks: int, parts: int) -> Iterator[tuple[str, float]]:
        """Estimate the summaries of ``parts`` ranges of time, and what multiplies them."""
        facts, rates = self.facts, self.rates
        composers = tasks if self.plan.partition.group_by else 1
        if facts.pairs * RAW_EVENTS > 1:
            work = self.values(rates.send_ns) + self.engine() + facts.rows * rates.summary_ns / 1e9
            yield "compose", self.stage(work, composers)
            return
        yield "summarise", self.stage(facts.rows * rates.summary_ns / 1e9, parts)
        matrices = facts.rows * facts.pairs + parts
        yield "multiply", self.stage(matrices * rates.matrix_ns / 1e9, composers)

    def growth(self, tasks: int) -> float:
        """Estimate how often an event is read where tasks read beyond their ranges."""
        return 1.0 + sum(self.needs.reach) * (tasks - 1) / max(self.facts.span, 1)


def composes_slices(needs: Needs, span: int, tasks: int) -> bool:
    """Check whether slices of files are summarised: their windows may be too long for a task."""
    if needs.one_window:
        return True
    # Windows as long as the files would make every task read everything.
    return sum(needs.reach) > span // (2 * tasks) and not needs.not_composed


def evaluator_of(plan: Plan) -> Evaluator:
    """Return the evaluator of a plan; kinds without a choice count as others."""
    return plan.choice.evaluator if isinstance(plan, TrendPlan) else Evaluator.SITUATIONS


def estimate(plan: Plan, facts: Facts, rates: TaskRates) -> list[Estimate]:
    """Estimate every strategy that can run a plan over such events, the fastest first.

    Of each strategy, the number of tasks is the best one.
    """
    costs = _Costs(plan, facts, rates)
    found = [_best(strategy, parts, costs) for strategy, parts in _ways(costs)]
    return sorted(found, key=lambda one: one.seconds)


Parts = Callable[[int], Iterable[tuple[str, float]]]


def _ways(costs: _Costs) -> Iterator[tuple[Strategy, Parts]]:
    needs, facts = costs.needs, costs.facts
    if facts.slices and needs.files.strategy is Strategy.SCAN_SLICES:
        yield Strategy.SCAN_SLICES, lambda tasks: _scan_slices(costs, tasks)
    if not needs.not_composed:
        yield Strategy.COMBINE, lambda tasks: _combine(costs, tasks)
    if not needs.not_by_time and not needs.leads_in:
        yield Strategy.TIME_SHUFFLE, lambda tasks: _time_shuffle(costs, tasks)
    yield Strategy.KEY_SHUFFLE, lambda tasks: _key_shuffle(costs, tasks)


def _best(strategy: Strategy, parts: Parts, costs: _Costs) -> Estimate:
    facts, needs = costs.facts, costs.needs
    counts = [1, *(each * (facts.given or facts.cores) for each in TASKS_PER_CORE)]
    if facts.given is not None and strategy is not Strategy.SCAN_SLICES:
        counts = [facts.given]
    elif evaluator_of(costs.plan) in UNBOUNDED:
        counts = counts[1:]
    if strategy is Strategy.KEY_SHUFFLE and facts.spread:
        counts = [facts.spread]
    if strategy is Strategy.KEY_SHUFFLE and not needs.keys:
        counts = [1]
    if strategy is Strategy.TIME_SHUFFLE and (reach := sum(needs.reach)):
        most = max(1, facts.span // (REACHES_MIN * reach))
        counts = sorted({min(count, most) for count in counts})
    if strategy is Strategy.SCAN_SLICES:
        counts = sorted({min(count, facts.slices) for count in counts})
    found = [Estimate(strategy, count, tuple(parts(count))) for count in counts]
    return min(found, key=lambda one: one.seconds)


def _scan_slices(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    read = costs.values(costs.rates.value_ns)
    facts = costs.facts
    if composes_slices(costs.needs, facts.span, facts.given or facts.cores):
        yield "read", read / min(tasks, facts.cores)
        yield from costs.summaries(facts.given or facts.cores, tasks)
        return
    growth = costs.growth(tasks)
    yield "read and run", costs.stage(growth * (read + costs.engine()), tasks)


def _combine(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    facts, rates = costs.facts, costs.rates
    yield "look at times", costs.times()
    arriving = costs.values(rates.row_ns)
    if facts.in_order:
        yield "pass to Python", arriving / min(facts.partitions, facts.cores)
        yield from costs.summaries(tasks, facts.partitions)
        return
    yield "send", costs.stage(arriving + costs.values(rates.send_ns), facts.partitions)
    yield from costs.summaries(tasks, tasks)


def _time_shuffle(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    facts, rates = costs.facts, costs.rates
    growth = costs.growth(tasks)
    yield "look at times", costs.times()
    work = costs.values(rates.row_ns) + costs.values(rates.send_ns, growth)
    yield "send", costs.stage(work, facts.partitions)
    yield "run", costs.stage(costs.engine(growth), tasks)


def _key_shuffle(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    facts, rates = costs.facts, costs.rates
    if tasks > 1 and not facts.spread:
        yield "look at keys", costs.passing(len(costs.needs.keys))
    work = costs.values(rates.row_ns) + costs.values(rates.send_ns)
    yield "send", costs.stage(work, facts.partitions)
    yield "run", costs.stage(costs.engine(), tasks, facts.ratio)
    partition = costs.plan.partition
    if tasks > 1 and set(partition.group_by) != set(costs.needs.keys):
        yield "merge", costs.stage(0.0, tasks)
