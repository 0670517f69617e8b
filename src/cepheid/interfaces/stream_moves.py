"""Move the buckets of a live query that has been stopped to more tasks, with Spark's own means.

A checkpoint keeps the number of tasks that it began with. Where the cluster has more cores since
then, Spark 4.2 and newer rewrite the state for more tasks. Such a move takes the number of a
micro-batch, which sinks must not miss: it is noted before it begins, and counted when it is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cepheid.interfaces.console import complain
from cepheid.runtimes.checkpoints import (
    Move,
    Note,
    is_unfinished,
    last_planned,
    read_note,
    tasks_of,
    write_note,
)
from cepheid.spark.failures import FAILURES, clear_error
from cepheid.spark.versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATORS = {"0"}
"""The folders of a state that can be moved: that of one operator."""


def more_tasks(spark: SparkSession, checkpoint: Path) -> int | None:
    """Return the number of tasks that buckets can move to; None if they have it, or cannot."""
    note, planned = read_note(checkpoint), last_planned(checkpoint)
    if note is None or planned < 0 or not _can_move(spark, checkpoint):
        return None
    most = min(int(spark.sparkContext.defaultParallelism), note.buckets)
    return most if most > tasks_of(checkpoint, planned) else None


def _can_move(spark: SparkSession, checkpoint: Path) -> bool:
    if is_connect(spark) or not hasattr(type(spark), "_streamingCheckpointManager"):
        return False
    state = checkpoint / "state"
    return state.is_dir() and {path.name for path in state.iterdir()} == OPERATORS


def move_buckets(spark: SparkSession, checkpoint: Path, tasks: int) -> None:
    """Move the buckets of a query that has ended its last micro-batch.

    Spark calls this experimental, so a query whose buckets stay where they are goes on.
    """
    note = read_note(checkpoint)
    assert note is not None, "the query has run"
    move = Move(last_planned(checkpoint) + 1, tasks)
    write_note(checkpoint, msgspec.structs.replace(note, move=move))
    settle_move(spark, checkpoint, begin=True)


def settle_move(spark: SparkSession, checkpoint: Path, *, begin: bool = False) -> Note | None:
    """End a move that was noted, also one that a crash cut off; return the note without it."""
    note = read_note(checkpoint)
    if note is None or note.move is None:
        return note
    move = note.move
    if begin or (_has_begun(checkpoint, move) and is_unfinished(checkpoint)):
        try:
            spark._streamingCheckpointManager.repartition(str(checkpoint), move.tasks)
        except FAILURES as error:
            if _has_begun(checkpoint, move):
                raise  # Nothing else may run before it has ended.
            complain(f"notice: Spark does not move the buckets: {clear_error(error)}")
    first = note.first_batch - (1 if _has_begun(checkpoint, move) else 0)
    note = msgspec.structs.replace(note, move=None, first_batch=first)
    write_note(checkpoint, note)
    return note


def _has_begun(checkpoint: Path, move: Move) -> bool:
    """Check whether a move is the last plan: a micro-batch would have as many tasks as before."""
    planned = last_planned(checkpoint)
    return planned == move.number and tasks_of(checkpoint, planned) == move.tasks
