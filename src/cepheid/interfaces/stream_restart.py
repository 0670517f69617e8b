"""Start a live query, go on with it, or start it anew beside its old checkpoint."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from cepheid.api import CompiledQuery
from cepheid.decoding import from_json
from cepheid.interfaces.console import complain
from cepheid.interfaces.stream_moves import settle_move
from cepheid.interfaces.stream_options import Options
from cepheid.jobs.kind import compile_query
from cepheid.jobs.misfits import other_buckets
from cepheid.language.parser import parse
from cepheid.language.tree import with_own_functions
from cepheid.runtimes.checkpoints import (
    BUCKETS_SETTING,
    Note,
    is_unfinished,
    set_aside,
    write_note,
)
from cepheid.runtimes.spark.sinks.calls import Write
from cepheid.runtimes.spark.stream import bucket_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST, NOW = "earliest", "now"

_QUERY = "_cepheid_query.json"
"""The file of a checkpoint with the query that it was last used with."""


class Began(msgspec.Struct, frozen=True):
    """The settings that decide the rows of a micro-batch and may change at a restart."""

    text: str
    watermark: str
    max_ahead: str

    @staticmethod
    def of(compiled: CompiledQuery, options: Options) -> Began:
        """Collect it of a query that starts."""
        return Began(compiled.text, options.watermark, options.max_ahead)


def cut_off(compiled: CompiledQuery, options: Options) -> tuple[CompiledQuery, Options] | None:
    """Find the query that began a micro-batch and did not end it, if it is another one now.

    Spark runs such a micro-batch again, and a sink may have some of its rows already. So they have
    to be the same: the query that began it finishes it.
    """
    file = options.checkpoint / _QUERY
    if not file.is_file() or not is_unfinished(options.checkpoint):
        return None
    began = from_json(file.read_bytes(), Began)
    if began == Began.of(compiled, options) and options.restart_from is None:
        return None
    going_on = msgspec.structs.replace(
        options,
        watermark=began.watermark,
        max_ahead=began.max_ahead,
        restart_from=None,
        backfill=None,
        buckets=None,
    )
    parsed = with_own_functions(parse(began.text), compiled.source.functions)
    plan = compile_query(parsed, began.text, compiled.source)
    return CompiledQuery(parsed, plan, compiled.source), going_on


def note_query(compiled: CompiledQuery, options: Options) -> None:
    """Write down which query begins the next micro-batches."""
    waiting = options.checkpoint / f"{_QUERY}.tmp"
    waiting.write_bytes(msgspec.json.encode(Began.of(compiled, options)))
    waiting.replace(options.checkpoint / _QUERY)


def wrong_restart(options: Options, *, rules: bool) -> str:
    """Describe the mistake in how a query begins; empty if there is none."""
    if not _is_start(options.restart_from):
        return f"--restart-from is earliest, now or a time, not {options.restart_from!r}"
    begins_within = options.restart_from not in (None, EARLIEST) or options.backfill is not None
    if rules and begins_within:
        return "rules start from earliest: --backfill and other times are for one query"
    if not isinstance(options.source, str) and begins_within:
        return "--backfill and --restart-from with a time are for queries over one stream"
    if options.backfill is not None and options.restart_from in (None, EARLIEST):
        return "--backfill needs --restart-from TIME: the time from which on events are live"
    return ""


def _is_start(restart_from: str | None) -> bool:
    """Check a start before anything of an old checkpoint is moved: whole numbers are times, too."""
    if restart_from in (None, EARLIEST, NOW) or restart_from.removeprefix("-").isdigit():
        return True
    try:
        datetime.fromisoformat(restart_from)
    except ValueError:
        return False
    return True


@contextmanager
def begun(spark: SparkSession, options: Options, tick_ns: int) -> Iterator[Note]:
    """Note what a query begins with, and use as many buckets as its checkpoint has."""
    before = spark.conf.get(BUCKETS_SETTING, None)
    note = _note(spark, options, tick_ns)
    spark.conf.set(BUCKETS_SETTING, str(note.buckets))
    try:
        yield note
    finally:
        if before is None:
            spark.conf.unset(BUCKETS_SETTING)
        else:
            spark.conf.set(BUCKETS_SETTING, before)


def _note(spark: SparkSession, options: Options, tick_ns: int) -> Note:
    """Read the note of a checkpoint, or write that of a new one.

    Raises
    ------
    DataError
        E524 if the checkpoint has another number of buckets.
    """
    known = settle_move(spark, options.checkpoint)
    if known is not None and options.restart_from is None:
        if options.buckets not in (None, known.buckets):
            setting = "leave --buckets out"
            raise other_buckets(known.buckets, options.buckets, setting=setting)
        return known
    since = _since(options.restart_from, tick_ns)
    store = None if options.backfill is None else str(options.backfill)
    note = Note(options.buckets or bucket_count(spark), since=since, backfill=store)
    if old := set_aside(options.checkpoint):
        aside, following = old
        note = Note(note.buckets, following, since, store)
        complain(f"the query starts anew; its old checkpoint is {aside}")
        complain(f"its rows follow micro-batch {following - 1} of the sink, and may repeat rows")
    write_note(options.checkpoint, note)
    return note


def _since(restart_from: str | None, tick_ns: int) -> str | None:
    if restart_from in (None, EARLIEST):
        return None
    if restart_from != NOW:
        return restart_from
    if tick_ns != 1000:
        return str(time.time_ns() // tick_ns)
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def following(write: Write, first_batch: int) -> Write:
    """Let the numbers of micro-batches follow those of an earlier query in the sink."""
    if not first_batch:
        return write

    @functools.wraps(write)
    def shifted(batch: DataFrame, number: int) -> None:
        write(batch, number + first_batch)

    return shifted
