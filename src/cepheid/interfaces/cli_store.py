"""``cepheid store``: append, index, verify, compact, clean, recover, info and query."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from cepheid.errors import CepheidError, visible
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.interfaces.cli_input import read_text, refuse_options, result_kind
from cepheid.interfaces.commands import Argument, Commands, Option
from cepheid.interfaces.console import say

store_app = Commands(help="Keep events in the order of time, and query their history.")

StoreArgument = Annotated[Path, Argument(help="The folder of the store.")]
QueryArgument = Annotated[Path, Argument(help="A query file.")]


def _open(path: Path, time: str | None = None) -> Any:
    # Arrow takes longer to load than most commands run.
    from cepheid.store.event_store import EventStore

    return EventStore(path, time=time)


@store_app.command()
def append(
    store: StoreArgument,
    files: Annotated[str, Argument(help="A file, a folder, or a pattern: 'log/*.parquet'.")],
    time: Annotated[str | None, Option(help="The time column of a new store.")] = None,
    time_format: Annotated[
        str | None, Option(help="The format of times that are text; else ISO 8601.")
    ] = None,
) -> None:
    """Append the events of files; the store is made if it does not exist."""
    from cepheid.events.files import find_files

    opened = _open(store, time)
    times = TextTimes(opened.time, as_format(time_format))
    count = sum(opened.append(table) for file in find_files(files) for table in _whole(file, times))
    say(f"{count:,} events appended, version {opened.version}")


def _whole(file: Path, times: TextTimes) -> Any:
    """Combine the events of a file into few tables, so that segments are large."""
    import pyarrow as pa

    from cepheid.events.files import read_all
    from cepheid.store.segments import SEGMENT_ROWS

    waiting: list[pa.Table] = []
    for table in read_all([file], None, times):
        waiting.append(table)
        if sum(map(len, waiting)) >= SEGMENT_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


@store_app.command()
def index(
    store: StoreArgument,
    attributes: Annotated[
        list[str], Argument(help="Columns that queries compare; a,b is one index on both.")
    ],
) -> None:
    """Build secondary indexes; later events are in them too."""
    opened = _open(store)
    for attribute in attributes:
        opened.index(*attribute.split(","))
    say(f"indexed: {_indexed(opened)}")


def _indexed(opened: Any) -> str:
    return ", ".join(visible(" + ".join(names)) for names in opened.indexes) or "nothing"


@store_app.command(name="open")
def open_(
    folder: Annotated[Path, Argument(help="A folder of Parquet files in the order of time.")],
    time: Annotated[str, Option(help="The column that holds an event's time.")] = "ts",
    index_at: Annotated[
        Path | None, Option(help="The folder of the indexes; `_cepheid` beside without it.")
    ] = None,
) -> None:
    """Index Parquet files of others where they lie; they are only read."""
    from cepheid.store.event_store import EventStore

    opened = EventStore.open_directory(folder, time=time, index_at=index_at)
    say(f"{len(opened):,} events, index in {visible(str(opened.path))}")


@store_app.command()
def verify(store: StoreArgument) -> None:
    """Compare all files with their checksums; status 1 if one is damaged."""
    report = _open(store).verify()
    for problem in report.problems:
        say(visible(problem))
    found = f"{len(report.problems)} damaged" if report.problems else "all sound"
    say(f"{report.files:,} files, {report.size:,} bytes: {found}")
    if report.problems:
        raise SystemExit(1)


@store_app.command()
def compact(store: StoreArgument) -> None:
    """Merge segments that overlap in time, and small ones."""
    opened = _open(store)
    before = len(opened.snapshot().manifest.segments)
    opened.compact()
    say(f"{before:,} segments, now {len(opened.snapshot().manifest.segments):,}")


@store_app.command()
def clean(
    store: StoreArgument,
    older_than: Annotated[
        float, Option(help="Only files older than so many seconds.", min=0)
    ] = 3600,
) -> None:
    """Remove files that no version needs, such as those of a crash."""
    say(f"{len(_open(store).clean(older_than_s=older_than)):,} files removed")


@store_app.command()
def recover(store: StoreArgument) -> None:
    """Go back to the newest whole version, after a manifest or the pointer was lost."""
    from cepheid.store.event_store import EventStore

    found = EventStore.recover(store)
    lost = ", ".join(map(str, found.lost)) or "none"
    say(f"version {found.version} is as version {found.source} was; lost versions: {lost}")
    for path in found.spare:
        say(f"not in it: {visible(str(path))}")


@store_app.command()
def info(store: StoreArgument) -> None:
    """Print what a store holds."""
    opened = _open(store)
    manifest = opened.snapshot().manifest
    size = sum(file.size for file in manifest.files())
    say(f"version   {manifest.version}")
    say(f"events    {manifest.rows:,} in {len(manifest.segments):,} segments, {size:,} bytes")
    if manifest.segments:
        reader = opened.scan(columns=[opened.time])
        kind = reader.schema.field(opened.time).type
        first, last = (
            _time(place, kind)
            for place in (
                min(s.first for s in manifest.segments),
                max(s.last for s in manifest.segments),
            )
        )
        say(f"from      {first}\nto        {last}")
    say(f"indexed   {_indexed(opened)}")
    for field in manifest.schema:
        say(f"column    {visible(field.name)} {field.type}")


def _time(tick: int, kind: Any) -> str:
    import pyarrow as pa

    from cepheid.events.nanoseconds import is_nanoseconds

    if pa.types.is_integer(kind):
        return str(tick)
    if is_nanoseconds(kind):
        return str(pa.scalar(tick, pa.timestamp("ns")).cast(pa.string()))
    return str(pa.scalar(tick, pa.timestamp("us")).as_py())


@store_app.command()
def query(
    store: StoreArgument,
    file: QueryArgument,
    output: Annotated[Path | None, Option(help="Write the result to this file.")] = None,
    format_: Annotated[str, Option("--format", help="table, csv, json (lines) or parquet.")] = "",
    method: Annotated[
        str, Option(help="auto, index (look up all that is indexed) or replay (everything).")
    ] = "auto",
    explain: Annotated[bool, Option(help="Tell what was read instead of the result.")] = False,
    type_: Annotated[str, Option("--type", help="The column of the events' types.")] = "type",
) -> None:
    """Run a query over the history; only what it needs is read.

    In SQL with MATCH_RECOGNIZE the store is the table `events`.
    """
    from cepheid.api import query as compile_query
    from cepheid.interfaces.run_command import write_result
    from cepheid.pictures.shown_times import ShownTimes

    kind = result_kind(format_, output)
    if explain:
        why = "--explain prints the plan of the cheapest method, and no rows"
        chosen = None if method == "auto" else method
        refuse_options(why, format=format_, output=output, method=chosen)
    text, name = read_text(str(file))
    opened = _open(store)
    try:
        if _is_sql(text):
            found = _query_sql(text, opened, method, explain=explain)
        else:
            compiled = compile_query(text, time=opened.time, type=type_)
            found = (
                compiled.explain(store=opened, analyze=True)
                if explain
                else compiled.run(opened, strategy=method)
            )
    except CepheidError as error:
        error.file = name
        raise
    if explain:
        say(found)
    else:
        write_result(found, kind, output, ShownTimes(opened.time, "us"))


def _is_sql(text: str) -> bool:
    """Check whether a text has a MATCH_RECOGNIZE clause, or a window with PATTERN."""
    clause = r"\bMATCH_RECOGNIZE\s*\(|\bOVER\b.*\bPATTERN\s*\("
    return re.search(clause, text, re.IGNORECASE | re.DOTALL) is not None


def _query_sql(text: str, store: Any, method: str, *, explain: bool) -> Any:
    """Run SQL over a store; it is the table `events`."""
    from cepheid.statements import sql

    return sql(text, tables={"events": store}, strategy=method, analyze=explain)


@store_app.command()
def calibrate() -> None:
    """Measure what reading, looking up and running cost here, so that plans fit this machine."""
    from cepheid.api import query as compile_query
    from cepheid.runtimes.calibrate import measure_rates
    from cepheid.store.rates import write_rates

    rates = measure_rates(compile_query)
    path = write_rates(rates)
    say(f"a row group {rates.group:.1f} us, a value {1e3 * rates.value:.1f} ns,")
    say(f"an event that is run {1e3 * rates.run:.1f} ns, a row that is matched")
    say(f"{1e3 * rates.match:.1f} ns a variable,")
    say(f"a look-up {rates.look_up:.1f} us, an entry {1e3 * rates.entry:.1f} ns: {path}")
