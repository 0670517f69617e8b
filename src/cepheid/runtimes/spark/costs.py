"""Estimate the seconds of every strategy of a query on Spark, from facts about its events.

A stage takes as long as its work on all cores, at least as long as its largest task, and some more
for the last task; stages follow one another. The unit costs are those of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from cepheid.jobs.kind import needs_of
from cepheid.plans.needs import Needs, Strategy
from cepheid.plans.plan import Evaluator, Plan, TrendPlan
from cepheid.runtimes.task_rates import TaskRates

TASKS_PER_CORE = (1, 2, 4, 8)
"""Numbers of tasks that are considered, for each core; also one task alone."""

LAST_TASK = 0.3
"""The share of a task for which other cores wait at the end of a stage."""

TIE = 1.2
"""Estimates within this factor are equal: what they leave out grows with the number of tasks."""

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
        The most slices that files or a store can be cut into; 0 for DataFrames.
    composes
        Whether tasks may summarise slices; those of a store only run the windows that they own.
    parts, keeps
        Tasks that read the files beneath a DataFrame themselves; 0 if Spark reads the events. And
        whether each task may read them all, and keep the events of its keys.
    profiled, dated
        Whether the times of partitions are known, and whether those of all events are, which is
        enough to cut by time; else looking at them costs a pass.
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
    composes: bool = True
    parts: int = 0
    keeps: bool = False
    profiled: bool = True
    dated: bool = False


class Estimate(NamedTuple):
    """The seconds of a strategy with a number of tasks, and what they are made of.

    Measured runs multiply them by a factor (``task_runs.py``).
    """

    strategy: Strategy
    tasks: int
    parts: tuple[tuple[str, float], ...]
    factor: float = 1.0

    @property
    def seconds(self) -> float:
        """Add up the parts."""
        return sum(seconds for _, seconds in self.parts) * self.factor

    def __str__(self) -> str:
        parts = ", ".join(f"{seconds:.2f} {name}" for name, seconds in self.parts)
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks} tasks"
        by = "" if self.factor == 1.0 else f", times {self.factor} by measured runs"
        return f"{self.strategy.value}: {self.seconds:.2f} s with {tasks}: {parts}{by}"


def stage_seconds(
    work: float, tasks: int, cores: int, rates: TaskRates, ratio: float = 1.0
) -> float:
    """Estimate the seconds of a stage with this work; ``ratio`` is its largest task to the mean."""
    one = work / tasks
    waves = -(-tasks // cores)
    busy = max(ratio * one, work / min(tasks, cores)) + LAST_TASK * one
    start = rates.stage_ms + waves * rates.task_ms + tasks * rates.driver_ms
    return start / 1e3 + busy


def all_read_all(facts: Facts, tasks: int, rates: TaskRates) -> bool:
    """Check whether tasks read all files, each for its own keys, sooner than events are sent."""
    if not facts.keeps:
        return False
    values = facts.rows * facts.columns / 1e9
    again = stage_seconds(values * rates.value_ns * tasks, tasks, facts.cores, rates)
    work = values * (rates.value_ns + rates.send_ns)
    sent = stage_seconds(work, facts.parts, facts.cores, rates)
    return again <= sent + stage_seconds(0.0, tasks, facts.cores, rates)


class _Costs:
    """The work of the parts of a plan, in seconds of one core."""

    def __init__(self, plan: Plan, facts: Facts, rates: TaskRates) -> None:
        self.plan, self.facts, self.rates = plan, facts, rates
        self.needs = needs_of(plan)

    def stage(self, work: float, tasks: int, ratio: float = 1.0) -> float:
        """Estimate the seconds of a stage with this work in all."""
        return stage_seconds(work, tasks, self.facts.cores, self.rates, ratio)

    def times(self) -> float:
        """Estimate the pass over times, if it is still to come."""
        return 0.0 if self.facts.profiled else self.passing(1 + len(self.plan.partition.attributes))

    def passing(self, columns: int) -> float:
        """Estimate a pass of the JVM over some columns, before anything else runs."""
        facts = self.facts
        work = facts.rows * columns * self.rates.scan_ns / 1e9
        return 2 * self.rates.stage_ms / 1e3 + work / min(facts.cores, facts.partitions)

    def keys(self) -> float:
        """Estimate the pass that counts the events of keys."""
        facts, count = self.facts, len(self.needs.keys)
        if not facts.parts:
            return self.passing(count)
        typed = count + (self.plan.type is not None)
        return self.stage(facts.rows * typed * self.rates.value_ns / 1e9, facts.parts)

    def from_spark(self) -> float:
        """Estimate work on rows that Spark reads and passes to Python."""
        facts, rates = self.facts, self.rates
        return facts.rows * (rates.row_ns + facts.columns * rates.cell_ns) / 1e9

    def sending(self, growth: float = 1.0) -> float:
        """Estimate the stage that reads events and sends them to others."""
        facts, rates = self.facts, self.rates
        read = self.values(rates.value_ns) if facts.parts else self.from_spark()
        work = read + self.values(rates.send_ns, growth)
        return self.stage(work, facts.parts or facts.partitions)

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

    def summaries(
        self, tasks: int, parts: int, reading: float = 0.0
    ) -> Iterator[tuple[str, float]]:
        """Estimate reading and summarising ``parts`` ranges of time, and what multiplies them."""
        facts, rates = self.facts, self.rates
        composers = tasks if self.plan.partition.group_by else 1
        if facts.pairs * RAW_EVENTS > 1:
            yield "send", self.stage(reading + self.values(rates.send_ns), parts)
            work = self.engine() + facts.rows * rates.summary_ns / 1e9
            yield "compose", self.stage(work, composers)
            return
        yield "summarise", self.stage(reading + facts.rows * rates.summary_ns / 1e9, parts)
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


def estimate(
    plan: Plan, facts: Facts, rates: TaskRates, corrections: Mapping[str, float] | None = None
) -> list[Estimate]:
    """Estimate every strategy that can run a plan over such events, the fastest first.

    Of strategies that are nearly as fast, the one with the fewest tasks is first. Of each strategy,
    the number of tasks is the best one. ``corrections`` are what measured runs
    multiply the seconds of strategies by.
    """
    costs, known = _Costs(plan, facts, rates), corrections or {}
    found = [
        _best(strategy, parts, costs)._replace(factor=known.get(strategy.value, 1.0))
        for strategy, parts in _ways(costs)
    ]
    found.sort(key=lambda one: one.seconds)
    near = [one for one in found if one.seconds <= TIE * found[0].seconds]
    first = min(near, key=lambda one: (one.tasks, one.seconds))
    return [first, *(one for one in found if one is not first)]


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
    if facts.composes and composes_slices(costs.needs, facts.span, facts.given or facts.cores):
        yield from costs.summaries(facts.given or facts.cores, tasks, read)
        return
    growth = costs.growth(tasks)
    yield "read and run", costs.stage(growth * (read + costs.engine()), tasks)


def _combine(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    facts = costs.facts
    yield "look at times", costs.times()
    if facts.in_order:
        yield from costs.summaries(tasks, facts.partitions, costs.from_spark())
        return
    yield "send", costs.sending()
    yield from costs.summaries(tasks, tasks)


def _time_shuffle(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    growth = costs.growth(tasks)
    if not costs.facts.dated:
        yield "look at times", costs.times()
    yield "send", costs.sending(growth)
    yield "run", costs.stage(costs.engine(growth), tasks)


def _key_shuffle(costs: _Costs, tasks: int) -> Iterator[tuple[str, float]]:
    if tasks > 1 and not costs.facts.spread:
        yield "look at keys", costs.keys()
    if all_read_all(costs.facts, tasks, costs.rates):
        read = costs.values(costs.rates.value_ns) * tasks
        yield "read all and run", costs.stage(read + costs.engine(), tasks, costs.facts.ratio)
    else:
        yield "send", costs.sending()
        yield "run", costs.stage(costs.engine(), tasks, costs.facts.ratio)
    partition = costs.plan.partition
    if tasks > 1 and set(partition.group_by) != set(costs.needs.keys):
        yield "merge", costs.stage(0.0, tasks)
