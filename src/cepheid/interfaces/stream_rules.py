"""``cepheid stream --rules``: run rules over a live stream, and reload them while it runs.

The folder is checked between micro-batches. If its rules have changed, the query is stopped and
restarted with the new rules on the same checkpoint: unchanged rules continue with their state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.console import Console

from cepheid import runtimes
from cepheid.errors import CepheidError
from cepheid.interfaces.stream_command import live_session, showing, start
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_sources import source_of
from cepheid.spark.failures import FAILURES, clear_error
from cepheid.workloads import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cepheid.runtimes.spark.live_output import LiveOutput

Read = Callable[[], Workload]
Complain = Callable[[str], None]

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
        self.rules = read()
        self._said = ""

    def changed(self, try_out: Callable[[Workload], object]) -> bool:
        """Read the rules again; return whether they are different and can run."""
        try:
            rules = self._read()
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


def stream_rules_in(spark: SparkSession, book: Rulebook, options: Options) -> None:
    """Run rules over a live stream in a session."""

    def output_of(rules: Workload) -> LiveOutput:
        assert isinstance(options.source, str), "rules read one stream"
        events = source_of(spark, options.source, options)
        output: LiveOutput = runtimes.stream_workload(rules, events, options.live)
        return output

    live: Any = None
    try:
        with showing(Console(stderr=True)) as show:
            live = start(output_of(book.rules), options)
            while not live.awaitTermination(SECONDS):
                show(live)
                if book.changed(output_of):
                    # A micro-batch that is cut off runs again, and with the new rules.
                    live.stop()
                    live = start(output_of(book.rules), options)
    except KeyboardInterrupt:
        if live is not None:
            live.stop()
    except FAILURES as error:
        raise clear_error(error) from error
