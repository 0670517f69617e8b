"""Check the options of public functions; an option without effect is an error (E59x).

An option is used or refused: an unknown value, or a valid one without effect, is a mistake that the
result would not reveal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from os import PathLike
from typing import NamedTuple, Never

from cepheid.errors import CepheidError, Diagnostic, UnsupportedError

DEVICES = ("auto", "cpu", "gpu")
METHODS = ("auto", "index", "replay")
FRAME_STRATEGIES = ("combine", "key shuffle", "time shuffle")
FILE_STRATEGIES = (*FRAME_STRATEGIES, "scan slices")
LATE = ("drop", "side", "correct")
BAD = ("drop", "side", "fail")
IN_PROCESS = (
    "a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or Polars DataFrame, a "
    "list of dicts, or anything with `__arrow_c_stream__`"
)


class OptionError(CepheidError, TypeError, ValueError):
    """An argument of a function cannot be used (E590 to E592).

    It is also a TypeError and a ValueError, so that callers may catch either.
    """


class LiveOptions(NamedTuple):
    """The options of a live query, as the user gave them."""

    watermark: str
    late: str = "drop"
    bad: str = "drop"
    max_ahead: str = "1 day"
    idle: str | None = None
    lateness: str | None = None
    changes: object = None
    """The columns of a changelog, if the stream is one."""
    marks: bool = False
    """Whether rows carry the watermark (§15.8)."""
    tagged: bool = False
    """Whether rows, late events and bad records leave one DataFrame."""
    hot_keys: str | None = None
    """A folder in which keys with many events are noted, if they are split."""
    shed: str | None = None
    """Time that a micro-batch may take before events are dropped; None if none ever is."""
    shed_notes: str | None = None
    """A folder in which it is noted what is dropped."""
    latency: str | None = None
    """How long a row may wait; the limit of the source follows it."""


class Held(StrEnum):
    """The container of events."""

    FILES = "files"
    STORE = "an event store"
    FRAME = "a DataFrame of Spark"
    TABLE = "events in this process"


def one_of(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a value that is not among the choices.

    Raises
    ------
    OptionError
        E590.

    Examples
    --------
    >>> one_of("late", "drop", ("drop", "side"))
    """
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        refuse("E590", f"{name} is one of {', '.join(known)}, not {value!r}")


def true_or_false(**values: object) -> None:
    """Refuse values that are not booleans; most others would count as True."""
    for name, value in values.items():
        if not isinstance(value, bool):
            refuse("E590", f"{name} is one of True, False, not {value!r}")


def names_in(name: str, value: object) -> tuple[str, ...]:
    """Convert an argument to a tuple of column names."""
    if isinstance(value, str):
        refuse("E592", f"{name} is a list of column names, not one string")
    if not isinstance(value, Iterable):
        refuse("E592", f"{name} is a list of column names, not {_kind(value)}")
    names = tuple(value)
    if not all(isinstance(one, str) for one in names):
        refuse("E592", f"{name} is a list of column names, and names are str")
    return names


def texts(**values: object) -> None:
    """Refuse values that are not text."""
    for name, value in values.items():
        if not isinstance(value, str):
            refuse("E592", f"{name} is a str, not {_kind(value)}")


def session(spark: object) -> None:
    """Refuse an object that is not a Spark session."""
    if not hasattr(spark, "createDataFrame"):
        refuse("E592", f"spark is a Spark session, not {_kind(spark)}")


def whole(name: str, value: object) -> int | None:
    """Check a positive integer of at most 60 bits; None stays None.

    Raises
    ------
    OptionError
        E592 if it is something else.
    """
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**60:
        refuse("E592", f"{name} is a positive whole number of at most 60 bits, not {value!r}")
    return value


def unused(name: str, why: str, *helps: str) -> Never:
    """Refuse an option without effect.

    Raises
    ------
    OptionError
        E591.
    """
    refuse("E591", f"{name} has no effect here: {why}", *helps)


def refuse(code: str, message: str, *helps: str) -> Never:
    """Raise an OptionError of one diagnostic."""
    raise OptionError([Diagnostic(code, message, helps=helps)])


_TABLES: set[type] = set()
"""Classes of Arrow that hold events; each call would look at all their bases several times."""


def holder_of(events: object) -> Held:
    """Find the container of the events.

    Raises
    ------
    OptionError
        E592 if the container is not supported.
    """
    if type(events) in _TABLES:
        return Held.TABLE
    if isinstance(events, str | PathLike):
        return Held.FILES
    kinds = type(events).__mro__
    if any(kind.__module__ == "cepheid.store.event_store" for kind in kinds):
        return Held.STORE
    library = type(events).__module__.partition(".")[0]
    if library == "pyspark" and hasattr(events, "isStreaming"):
        return Held.FRAME
    arrow = any(kind.__module__.startswith("pyarrow.") for kind in kinds)
    if arrow and (hasattr(events, "schema") or hasattr(events, "to_table")):
        if library == "pyarrow":
            _TABLES.add(type(events))
        return Held.TABLE
    exports = is_frame(events) or hasattr(events, "__arrow_c_stream__")
    if exports or isinstance(events, list | tuple):
        return Held.TABLE
    message = f"events are a path, an event store, a Spark DataFrame, {IN_PROCESS}, not "
    refuse("E592", message + _kind(events), *_way_out(events))


def is_running(events: object) -> bool:
    """Check whether this is a live query that Spark runs, without importing Spark."""
    kind = type(events)
    return kind.__module__.partition(".")[0] == "pyspark" and kind.__name__ == "StreamingQuery"


def is_frame(events: object) -> bool:
    """Check whether events are a DataFrame of pandas or Polars, without importing either."""
    library, name = type(events).__module__.partition(".")[0], type(events).__name__
    return library in ("pandas", "polars") and name in ("DataFrame", "LazyFrame")


def _way_out(events: object) -> tuple[str, ...]:
    """Suggest a conversion for objects that resemble events."""
    if isinstance(events, Mapping):
        return ("pass a list of such dicts, or `pyarrow.table(...)` of a dict of columns",)
    if isinstance(events, Iterable):
        return ("pass `list(events)` if they are dicts",)
    return ()


def check_run(
    events: object,
    *,
    spark: object,
    strategy: object,
    device: object,
    streams: Sequence[str],
    text: str,
) -> None:
    """Refuse options that cannot be combined with the events.

    Raises
    ------
    OptionError
        E590 for a value that is not among the choices, E591 for one without effect, E592 for a
        value of the wrong type.
    UnsupportedError
        E552 for a GPU that would not be used.
    """
    one_of("device", device, DEVICES)
    held = holders_of(events, streams=streams)
    if spark is not None:
        session(spark)
        if held == {Held.TABLE} and not streams:
            why = "a Spark session reads files and stores, but these events are in this process"
            unused("spark", why, "leave it out, or pass `spark.createDataFrame(events)`")
    on_spark = spark is not None or Held.FRAME in held
    if device == "gpu" and on_spark:
        message = "the cluster decides whether Spark tasks run on a GPU"
        help_ = "give GPUs to its tasks, as docs/accelerator.md describes, and leave device out"
        raise UnsupportedError([Diagnostic("E552", message, helps=(help_,))], text)
    if strategy is not None:
        _check_strategy(strategy, held, on_spark=on_spark, streams=streams)


def check_sql(
    spark: object,
    tables: object,
    *,
    strategy: object,
    explain: object,
    analyze: object,
    watermark: object,
) -> None:
    """Refuse options of SQL without effect.

    Raises
    ------
    OptionError
        As for ``check_run``.
    """
    true_or_false(explain=explain, analyze=analyze)
    if tables is not None and not isinstance(tables, Mapping):
        refuse("E592", f"tables are a dict of tables by name, not {_kind(tables)}")
    held = {holder_of(table) for table in (tables or {}).values()}
    if spark is None and Held.FRAME in held:
        message = "tables in process are of Arrow, pandas or Polars, files or event stores"
        refuse("E592", f"{message}, not {Held.FRAME}", "use `sql(spark, text, tables=...)`")
    if strategy is not None:
        one_of("strategy", strategy, METHODS)
    if watermark is not None:
        texts(watermark=watermark)
        if spark is None:
            unused("watermark", "streams are Spark's", "use `sql(spark, text, watermark=...)`")
    if spark is not None:
        session(spark)
        if strategy is not None:
            way_out = "leave it out, or use `sql(text, strategy=...)`"
            unused("strategy", "Spark runs the text", way_out)
    elif Held.STORE not in held and strategy is not None:
        unused("strategy", "it is about event stores, and no table is one", "leave it out")


def check_explain(
    streams: Sequence[str],
    *,
    schema: object,
    shown: object,
    engine: object,
    store: object,
    events: object,
    spark: object,
    analyze: object,
    changes: object = False,
) -> None:
    """Refuse options of an explanation that cannot be combined.

    Raises
    ------
    OptionError
        As for ``check_run``.
    """
    one_of("format", shown, ("text", "mermaid", "json"))
    one_of("engine", engine, ("local", "spark", "gpu"))
    true_or_false(analyze=analyze, changes=changes)
    if changes and (store is not None or analyze or shown != "text"):
        unused("changes", "it adds to the text of a plan", 'use format="text" alone')
    given = {
        "schema": schema is not None,
        "format": shown != "text",
        "engine": engine != "local",
        "events": events is not None,
        "spark": spark is not None,
    }
    if store is not None:
        held = holders_of(store, streams=streams)
        if held != {Held.STORE}:
            refuse("E592", f"store is an event store, not {', '.join(sorted(held))}")
        _refuse_given(given, "this is about what is read of a store")
        return
    if not analyze:
        if not (engine == "spark" and events is not None and shown == "text" and not streams):
            _refuse_events(given)
        if given["engine"] and given["format"]:
            unused("engine", f"a plan as {shown} does not tell of it", 'use format="text"')
        return
    if events is None:
        unused("analyze", "it runs the query, over events", "pass `events` or `store`")
    is_live = is_running(events)
    del given["events"]
    if not is_live:
        del given["spark"]
    _refuse_given(given, "the events have their columns, and say where the query runs")
    if is_live:
        return
    check_run(events, spark=spark, strategy=None, device="cpu", streams=streams, text="")


def _refuse_events(given: Mapping[str, bool]) -> None:
    """Refuse events, which only an analysis and costs on Spark look at."""
    for name in ("events", "spark"):
        if given[name]:
            unused(name, "a plan reads no events", "add `analyze=True`, which runs the query")


def _refuse_given(given: Mapping[str, bool], why: str) -> None:
    for name, is_given in given.items():
        if is_given:
            unused(name, why, "leave it out")


def holders_of(events: object, *, streams: Sequence[str]) -> set[Held]:
    """Find the containers of the events; named streams may come as a dict."""
    found = events.values() if streams and isinstance(events, Mapping) else [events]
    return {holder_of(one) for one in found}


def _check_strategy(
    strategy: object, held: set[Held], *, on_spark: bool, streams: Sequence[str]
) -> None:
    """Refuse a strategy that does not exist for these events."""
    if Held.STORE in held:
        one_of("strategy", strategy, METHODS)
    elif streams or not on_spark:
        why = "it selects how Spark splits a pattern query, or what is read from an event store"
        of_stores, of_files = ", ".join(METHODS), ", ".join(FILE_STRATEGIES)
        unused("strategy", why, f"leave it out; for stores it is {of_stores}, on Spark {of_files}")
    elif strategy == "scan slices" and Held.FRAME in held:
        message = "the strategy `scan slices` reads files: pass their path instead of a DataFrame"
        refuse("E591", message)
    else:
        choices = FILE_STRATEGIES if Held.FILES in held else FRAME_STRATEGIES
        one_of("strategy", strategy, choices)


def _kind(value: object) -> str:
    return type(value).__name__
