"""``cepheid stream --rules``: run rules over a live stream, and reload them while it runs.

The folder is checked between micro-batches. If its rules have changed, the query is stopped and
restarted with the new rules on the same checkpoint: unchanged rules continue with their state. A
micro-batch that was cut off is finished by the rules that began it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from cepheid import runtimes
from cepheid.errors import CepheidError
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

Read = Callable[[Path | None], Workload]
"""Read the rules of the user, or those in another place."""
Complain = Callable[[str], None]

SAVED = "cepheid-rules.jsonl"
"""The file of a checkpoint with the rules that it was last used with."""

SECONDS = 1.0
"""The interval between checks of the rules."""


class Rulebook:
    """Rules that may change: the last version that could be read and run.

    Parameters
    ----------
    read
        Reads the rules, or raises the error in them.
    complain
        Called once for rules that cannot be read or run; the previous rules continue.
    """

    def __init__(self, read: Read, complain: Complain) -> None:
        self._read, self._complain = read, complain
        self.rules = read(None)
        self._said = ""

    def earlier(self, file: Path) -> Workload | None:
        """Read the rules that a checkpoint was last used with, if they were different."""
        if not file.exists():
            return None
        rules = self._read(file)
        return rules if _texts(rules) != _texts(self.rules) else None

    def save(self, file: Path) -> None:
        """Write the rules to a file, whole or not at all."""
        lines = [{NAME: name, TEXT: text} for name, text in _texts(self.rules).items()]
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as written:
            written.write(msgspec.json.Encoder().encode_lines(lines))
        Path(written.name).replace(file)

    def changed(self, try_out: Callable[[Workload], object]) -> bool:
        """Read the rules again; return whether they are different and can run."""
        try:
            rules = self._read(None)
            if _texts(rules) == _texts(self.rules):
                self._said = ""
                return False
            try_out(rules)
        except (CepheidError, OSError, ValueError) as error:
            if str(error) != self._said:
                self._complain(f"{error}\nthe rules before go on")
            self._said = str(error)
            return False
        self.rules, self._said = rules, ""
        return True


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
        book.save(saved)
        output = output_of(book.rules)
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
