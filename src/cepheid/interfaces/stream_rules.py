"""``cepheid stream --rules``: run rules over a live stream, and reload them while it runs.

The folder is checked between micro-batches. If its rules have changed, the query is stopped and
restarted with the new rules on the same checkpoint: unchanged rules continue with their state. A
micro-batch that was cut off is finished by the rules that began it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from rich.console import Console

from cepheid import runtimes
from cepheid.errors import CepheidError, QueryError, visible
from cepheid.interfaces.rule import Rule
from cepheid.interfaces.rule_queries import Ready
from cepheid.interfaces.rules import NAME, TEXT
from cepheid.interfaces.stream_command import Counted, live_session, numbers_shown, showing, start
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_restart import begun
from cepheid.interfaces.stream_sources import source_of
from cepheid.language import tree
from cepheid.plans.plan import TrendPlan
from cepheid.runtimes.checkpoints import is_unfinished
from cepheid.runtimes.spark.live_output import LiveOutput
from cepheid.runtimes.spark.stream_tasks import ROWS
from cepheid.spark.failures import FAILURES, clear_error
from cepheid.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[[Path | None], Ready]
"""Read the rules of the user, or those in another place."""
Output = TypeVar("Output")
Complain = Callable[[str], None]

SAVED = "cepheid-rules.jsonl"
"""The file of a checkpoint with the rules that it was last used with."""

SECONDS = 1.0
"""The interval between checks of the rules."""


class Rulebook:
    """Rules that may change: the last version of each that could be read and run.

    Parameters
    ----------
    read
        Reads the rules; those with mistakes are refused alone.
    complain
        Called once for a rule that cannot be read or run; its previous version continues.
    """

    def __init__(self, read: Read, complain: Complain) -> None:
        self._read, self._complain = read, complain
        self._said: dict[str, None] = {}
        self._unfit: dict[Rule, CepheidError] = {}
        self._ready = read(None)
        for error in self._ready.refused:
            self._tell(error, self._said, is_running=False)
        rules = {query.rule for query in self._ready.queries.values()}
        limited = sorted(rule.name for rule in rules if rule.rate_limit or rule.deduplicate)
        if limited:
            named = visible(", ".join(limited))
            complain(f"notice: a stream does not limit alerts yet; all rows leave of: {named}")

    @property
    def rules(self) -> Workload:
        """Return the rules that run."""
        return self._ready.workload

    def earlier(self, file: Path) -> Workload | None:
        """Read the rules that a checkpoint was last used with, if they were different."""
        if not file.exists():
            return None
        ready = self._read(file)
        for error in ready.refused:
            raise error
        rules = ready.workload
        return rules if _texts(rules) != _texts(self.rules) else None

    def save(self, file: Path) -> None:
        """Write the rules to a file, whole or not at all."""
        lines = [{NAME: name, TEXT: text} for name, text in _texts(self.rules).items()]
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as written:
            written.write(msgspec.json.Encoder().encode_lines(lines))
        Path(written.name).replace(file)

    def fit(self, try_out: Callable[[Workload], Output]) -> Output:
        """Try out the rules that were read first; those that do not fit the events are refused.

        Raises
        ------
        CepheidError
            If no rule fits, or the events are at fault.
        """
        while True:
            try:
                return try_out(self.rules)
            except QueryError as error:
                ready = self._unfitting(self._ready, error)
                if not ready.queries:
                    raise
                self._tell(error, self._said, is_running=False)
                self._ready = ready

    def changed(self, try_out: Callable[[Workload], object]) -> bool:
        """Read the rules again; return whether some are different and can run."""
        said: dict[str, None] = {}
        try:
            ready = self._read(None)
            for error in ready.refused:
                ready = self._as_before(ready, error, said)
            for rule in {query.rule for query in ready.queries.values()} & self._unfit.keys():
                # Trying out again takes a second, and gives the same mistake.
                ready = self._as_before(_without(ready, rule), self._unfit[rule], said)
            while ready.queries and _texts(ready.workload) != _texts(self.rules):
                try:
                    try_out(ready.workload)
                except QueryError as error:
                    ready = self._as_before(self._unfitting(ready, error), error, said)
                    continue
                self._ready = ready
                return True
        except (CepheidError, OSError, ValueError) as error:
            self._say(f"{error}\nthe rules before go on", said)
        finally:
            self._said = said
        return False

    def _unfitting(self, ready: Ready, error: QueryError) -> Ready:
        """Leave out the rule that an error is about; an error about something else is raised."""
        if error.file not in ready.queries:
            raise error
        rule = ready.queries[error.file].rule
        error.file = rule.name
        self._unfit[rule] = error
        return _without(ready, rule)

    def _as_before(self, ready: Ready, error: CepheidError, said: dict[str, None]) -> Ready:
        """Let the previous version of a refused rule go on, if it runs."""
        before = {
            name: query
            for name, query in self._ready.queries.items()
            if query.rule.name == error.file and name not in ready.queries
        }
        self._tell(error, said, is_running=bool(before))
        return ready._replace(queries=ready.queries | before)

    def _tell(self, error: CepheidError, said: dict[str, None], *, is_running: bool) -> None:
        goes_on = "its version before goes on" if is_running else "the other rules go on"
        self._say(f"{error}\nthe rule `{visible(error.file)}` is refused: {goes_on}", said)

    def _say(self, text: str, said: dict[str, None]) -> None:
        if text not in self._said:
            self._complain(text)
        said[text] = None


def _without(ready: Ready, rule: Rule) -> Ready:
    kept = {one: query for one, query in ready.queries.items() if query.rule != rule}
    return ready._replace(queries=kept)


def _texts(rules: Workload) -> dict[str, str]:
    return {name: one.text for name, one in zip(rules.names, rules.queries, strict=True)}


def stream_rules(read: Read, options: Options, complain: Complain) -> None:
    """Run rules over a live stream until it is stopped or, with ``once``, its source is empty.

    Raises
    ------
    DataError
        The error of a task about the events, or E523 if Spark itself failed.
    """
    with live_session(options) as spark:
        stream_rules_in(spark, Rulebook(read, complain), options)


def with_double_counts(rules: Workload, output: LiveOutput) -> None:
    """Let all counts be doubles: a sink keeps the types of its columns when rules come and go."""
    plans = [query.plan for query in rules.queries]
    names = {
        column.name
        for plan in plans
        if isinstance(plan, TrendPlan)
        for column in plan.output.columns
        for known in plan.output.aggregates
        if known.name == column.aggregate and known.function is tree.AggregateFunction.COUNT
    }
    decode = output.decode[ROWS]

    def doubled(batch: DataFrame) -> DataFrame:
        rows = decode(batch)
        whole = [name for name, kind in rows.dtypes if kind == "bigint" and name in names]
        return rows.withColumns({name: rows[name].cast("double") for name in whole})

    output.decode[ROWS] = doubled


def stream_rules_in(spark: SparkSession, book: Rulebook, options: Options) -> None:
    """Run rules over a live stream in a session."""

    def output_of(rules: Workload) -> LiveOutput:
        assert isinstance(options.source, str), "rules read one stream"
        events = source_of(spark, options.source, options)
        with begun(spark, going_on, 1000):
            output: LiveOutput = runtimes.stream_workload(rules, events, options.live)
        with_double_counts(rules, output)
        return output

    with begun(spark, options, 1000):
        # From here on there is a note, and a later look does not start anew.
        going_on = msgspec.structs.replace(options, restart_from=None)

    def begin(counted: Counted) -> tuple[Any, LiveOutput]:
        # A micro-batch that was cut off runs again, and has to give the same rows: a sink may have
        # some of them already. So the rules that began it finish it.
        saved = options.checkpoint / SAVED
        before = book.earlier(saved) if is_unfinished(options.checkpoint) else None
        if before is not None:
            start(output_of(before), options, counted, single=True).awaitTermination()
        output = book.fit(output_of)
        book.save(saved)
        return start(output, options, counted), output

    live: Any = None
    try:
        with numbers_shown(spark, options) as counted, showing(Console(stderr=True)) as show:
            live, output = begin(counted)
            while not live.awaitTermination(SECONDS):
                show(live)
                if book.changed(output_of):
                    live.stop()
                    live, output = begin(counted)
            output.finish()
    except KeyboardInterrupt:
        if live is not None:
            live.stop()
    except FAILURES as error:
        raise clear_error(error) from error
