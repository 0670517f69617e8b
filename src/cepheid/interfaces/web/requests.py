"""Tasks that the server gives a worker: one struct for each task, sent as a line of JSON."""

from __future__ import annotations

import msgspec

from cepheid.interfaces.data_sets import Columns, DataSet
from cepheid.interfaces.web.settings import Limits


class Task(msgspec.Struct, frozen=True, kw_only=True, tag_field="task"):
    """The fields of all tasks: the folder of its files, the data set, and how it is read."""

    folder: str
    data: DataSet
    columns: Columns = Columns()
    limits: Limits = Limits()


class RunTask(Task, frozen=True, kw_only=True, tag="run"):
    """Run a query; ``sets`` are the tables that it may name."""

    text: str
    sets: dict[str, DataSet] = {}


class WhyTask(Task, frozen=True, kw_only=True, tag="why"):
    """Explain why a query finds no or few rows."""

    text: str
    sets: dict[str, DataSet] = {}


class TimelineTask(Task, frozen=True, kw_only=True, tag="timeline"):
    """Sort events by time and number their lanes, by the values of a column."""

    key: str | None = None


class MatchTask(Task, frozen=True, kw_only=True, tag="match"):
    """Collect the events around a match, and say why each is in it or not."""

    text: str
    result: str
    row: int


class LiveTask(Task, frozen=True, kw_only=True, tag="live"):
    """Feed a replay, a folder that grows, or topics of Kafka to live queries.

    Attributes
    ----------
    queries
        Texts by name; one without a name is a query, several are rules.
    speed
        Seconds of the events in one second of the clock; 0 is as fast as possible.
    watermark
        The allowed lateness.
    follow
        Wait for new files in the folder after the last event.
    start
        Where topics are read from: ``earliest`` or ``latest``.
    state
        The folder of an earlier replay that stopped, to go on from there.
    """

    queries: dict[str, str]
    speed: float = 0.0
    watermark: str = "0 seconds"
    follow: bool = False
    start: str = "earliest"
    state: str = ""


AnyTask = RunTask | WhyTask | TimelineTask | MatchTask | LiveTask
