"""The public functions and methods; each calls one layer after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import msgspec

from cepheid import options, runtimes
from cepheid.errors import Diagnostic
from cepheid.events.time_formats import TextTimes, as_format
from cepheid.jobs.explain import explain_html, explain_mermaid, explain_plan, explain_short
from cepheid.jobs.kind import compile_query, kind_of
from cepheid.jobs.relaxed import with_schema
from cepheid.jobs.ticks import TICKS_NS
from cepheid.language import tree
from cepheid.language.formatter import format_query
from cepheid.language.parser import parse
from cepheid.patterns.scope import Source
from cepheid.plans.plan import Evaluator, Plan

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import polars as pl  # type: ignore[import-not-found, unused-ignore]  # it is optional
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from cepheid.jobs.why import WhyNot
    from cepheid.store.event_store import EventStore

    ArrowEvents = (
        pa.Table
        | pa.RecordBatch
        | pa.RecordBatchReader
        | Sequence[pa.RecordBatch]
        | Sequence[Mapping[str, Any]]
        | Mapping[str, pa.Table | str | EventStore]
    )
    StoredEvents = str | PathLike[str] | EventStore


class CompiledQuery(msgspec.Struct, frozen=True):
    """A parsed, checked and planned query; made by :func:`query`."""

    tree: tree.Query
    plan: Plan
    source: Source
    evaluator: str | None = None

    @property
    def text(self) -> str:
        """Return the text as the user wrote it."""
        return self.plan.text

    @property
    def times(self) -> TextTimes:
        """Return how times that are text are read."""
        return self.source.times

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings about a valid query."""
        return self.plan.warnings

    def __repr__(self) -> str:
        return f"CompiledQuery  {explain_short(self.plan)}"

    def _repr_html_(self) -> str:
        """Draw the plan for a notebook, without scripts."""
        return explain_html(self.plan)

    def explain(
        self,
        *,
        schema: object = None,
        format: str = "text",  # noqa: A002  # fixed name
        engine: str = "local",
        store: object = None,
        analyze: bool = False,
    ) -> str:
        """Explain the plan in words, every choice with its reason.

        Parameters
        ----------
        schema
            The columns of the events, if they were not known when the query was made; see
            :func:`query`.
        format
            ``"text"``, ``"mermaid"`` (a flowchart of the pattern) or ``"json"`` (the plan itself).
        engine
            ``"spark"`` adds to the text how Spark cuts the work into tasks, ``"gpu"`` whether the
            query would run on a GPU of this machine.
        store
            An event store, for a SELECT over two streams a dict of them by name: explains which
            part of it the query reads, and why.
        analyze
            With a store: run the query, and report its reads.

        Examples
        --------
        >>> print(query("RETURN COUNT(*) PATTERN SEQ(Login, Transfer)").explain().splitlines()[0])
        plan  count
        """
        options.one_of("format", format, ("text", "mermaid", "json"))
        options.one_of("engine", engine, ("local", "spark", "gpu"))
        options.true_or_false(analyze=analyze)
        if store is not None:
            options.check_store(store, self.plan.streams, schema, format, engine)
            return runtimes.explain_store(self, store, analyze=analyze)
        if analyze:
            options.unused("analyze", "it tells what a query has read of a store", "pass `store`")
        if engine != "local" and format != "text":
            options.unused("engine", f"a plan as {format} does not tell of it", 'use format="text"')
        planned = self if schema is None else self.with_schema(schema)
        if format == "mermaid":
            return explain_mermaid(planned.plan)
        if format == "json":
            return msgspec.json.format(planned.plan.to_json(), indent=2).decode()
        text = explain_plan(planned.plan, spark=engine == "spark")
        return f"{text}\n{runtimes.explain_device(planned)}" if engine == "gpu" else text

    @overload
    def run(self, events: pd.DataFrame, *, device: str = "cpu") -> pd.DataFrame: ...

    @overload
    def run(self, events: DataFrame, *, strategy: str | None = None) -> DataFrame: ...

    @overload
    def run(self, events: ArrowEvents, *, device: str = "cpu") -> pa.Table: ...

    @overload
    def run(
        self, events: StoredEvents, *, spark: None = None, strategy: str | None = None
    ) -> pa.Table: ...

    @overload
    def run(
        self, events: StoredEvents, *, spark: SparkSession, strategy: str | None = None
    ) -> DataFrame: ...

    @overload
    def run(self, events: pl.DataFrame | pl.LazyFrame, *, device: str = "cpu") -> pl.DataFrame: ...

    @overload
    def run(
        self,
        events: object,
        *,
        spark: object = None,
        strategy: str | None = None,
        device: str = "cpu",
    ) -> Any: ...

    def run(
        self,
        events: object,
        *,
        spark: object = None,
        strategy: str | None = None,
        device: str = "cpu",
    ) -> Any:
        """Run the query over events and return its result.

        Parameters
        ----------
        events
            A pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a pandas or Polars
            DataFrame, a list of dicts, whatever exports a stream of Arrow
            (``__arrow_c_stream__``), as relations of DuckDB and tables of Ibis do, a Spark
            DataFrame, an event store, or the path of files: one, a folder, or a pattern such as
            ``"events/*.parquet"``. Events that are not in the order of time are sorted, with a
            warning; readers must be in order. A SELECT that joins two streams takes a dict of them
            by the names after FROM and JOIN.
        spark
            A Spark session that reads the files or the store; without one they are read in this
            process.
        strategy
            How Spark cuts the work into tasks: ``"combine"``, ``"key shuffle"`` or
            ``"time shuffle"``, for files also ``"scan slices"``. Without it the plan decides;
            ``explain(engine="spark")`` says how. Of a store: ``"index"`` or ``"replay"``.
        device
            For events in this process: ``"cpu"``, ``"gpu"``, or ``"auto"``, which runs what a GPU
            does faster there, if there is one, and everything else on the CPU.

        Returns
        -------
        pyarrow.Table, or a DataFrame of pandas, Polars or Spark
            The result of a DataFrame is a DataFrame of its library, otherwise Arrow. Rows are
            sorted by window and group, and matches come in the order of their last events, but for
            Spark.

        Raises
        ------
        OptionError
            If an option is none of the choices (E590), changes nothing for such events (E591), or
            is of the wrong kind, as events may be (E592).
        BindError
            If the events lack a column that the query names, or one has an unfit type.
        DataError
            If the events themselves are at fault (E5xx).
        UnsupportedError
            If the query cannot be run (E404), or not on the requested GPU (E551, E552).

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
        >>> query("RETURN COUNT(*) PATTERN SEQ(A+, B)").run(events).to_pylist()
        [{'count': 3.0}]
        """
        options.check_run(
            events,
            spark=spark,
            strategy=strategy,
            device=device,
            streams=self.plan.streams,
            text=self.text,
        )
        asked = runtimes.Request(self, events, spark, strategy, device)
        return runtimes.run(asked)

    def why_not(self, events: object, *, spark: object = None) -> WhyNot:
        """Explain why the query finds no or few rows over events.

        It counts how far partial matches came, and what the query finds without each condition,
        and lists no matches. Events, options and errors are those of :meth:`run`; a reader is read
        into memory. ``str()`` of the answer says it in sentences, ``to_dict()`` has all numbers.

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 9], "type": ["A", "B", "C"]})
        >>> print(query("PATTERN SEQ(A, B, C) WITHIN 5 us").why_not(events))
        No window has a match.
        1 window had A, 1 then B, 0 then C.
        The nearest C comes 8 microseconds after the first event; WITHIN is 5 microseconds.
        Without WITHIN 5 microseconds there would be 1 match.
        """
        options.check_run(
            events, spark=spark, strategy=None, device="cpu", streams=self.plan.streams, text=""
        )
        return runtimes.why_not(self, events, spark)

    def matches(self, events: object) -> Any:
        """List the matches of the query lazily, while the reader is read.

        Parameters
        ----------
        events
            As for :meth:`run`, except a Spark DataFrame.

        Returns
        -------
        pyarrow.RecordBatchReader
            The rows that ``run`` would return, a batch at a time, in the order of the matches'
            last events. However many matches there are, memory holds the events of a window and
            one batch.

        Raises
        ------
        ValueError
            If the query returns aggregates.
        BindError, DataError, UnsupportedError
            As for :meth:`run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": range(60), "type": ["A"] * 60})
        >>> reader = query("RETURN MATCHES PATTERN A+").matches(events)  # 2^60 - 1 matches
        >>> reader.read_next_batch().slice(2, 1).column("events").to_pylist()
        [[{'variable': 'A', 'ts': 0, 'type': 'A'}, {'variable': 'A', 'ts': 1, 'type': 'A'}]]
        """
        if not self.plan.lists_matches:
            options.refuse("E592", "this query lists no matches: use `run`")
        asked = runtimes.Request(self, events)
        if asked.place is runtimes.Place.FRAME:
            message = "`matches` runs in this process and cannot read a Spark DataFrame"
            options.refuse("E592", message, "use `run`, or pass `frame.toArrow()`")
        return runtimes.MATCHES[asked.place](asked)

    def stream(self, events: object, *, watermark: str, late: str = "drop") -> Any:
        """Run the query over a live stream; each row of a closed window is emitted once.

        Parameters
        ----------
        events
            A streaming DataFrame of Spark; for a SELECT over two streams a dict of them by name.
        watermark
            The allowed lateness, such as ``"10 seconds"``: events are sorted as long as they are
            not further behind the latest event so far.
        late
            The treatment of events behind the watermark. They are always counted in the progress
            of the query; ``"side"`` also returns them.

        Returns
        -------
        pyspark.sql.DataFrame, or two of them
            The rows, for output mode append. With ``late="side"`` also a DataFrame of late events,
            which is started as a query of its own.

        Raises
        ------
        BindError
            If the events lack a column that the query names, or one has an unfit type.
        UnsupportedError
            E405 if the windows of the query never close.
        """
        return runtimes.stream(self, events, watermark, late)

    def with_schema(self, schema: object) -> CompiledQuery:
        """Plan the query for events with these columns."""
        source = with_schema(self.source, self.tree, schema)
        plan = compile_query(self.tree, self.text, source)
        if self.evaluator is not None:
            plan = kind_of(plan).with_evaluator(plan, self.evaluator)
        return CompiledQuery(self.tree, plan, source, self.evaluator)

    def with_evaluator(self, evaluator: str) -> CompiledQuery:
        """Plan the query with another evaluator, to compare or to measure them.

        Parameters
        ----------
        evaluator
            ``"linear"``, ``"indexed"``, ``"previous"`` or ``"pairwise"``; all that can answer the
            query return the same result.

        Raises
        ------
        ValueError
            If this evaluator cannot answer the query.
        """
        options.one_of("evaluator", evaluator, tuple(Evaluator))
        plan = kind_of(self.plan).with_evaluator(self.plan, evaluator)
        return CompiledQuery(self.tree, plan, self.source, evaluator)

    def format(self) -> str:
        """Format the query in canonical layout."""
        return format_query(self.tree)


def query(
    text: str,
    *,
    time: str = "ts",
    type: str | None = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    time_unit: str = "us",
    time_format: str | None = None,
    schema: object = None,
) -> CompiledQuery:
    """Parse, check and plan a query.

    Parameters
    ----------
    text
        The query; ``docs/language.md`` describes the language.
    time, type
        The columns that hold an event's time and type. ``type=None`` says that all events have one
        type; without a column called ``type`` a pattern of one type takes them so, too.
    tiebreak
        Columns that order events of equal time under ``TIES arrival``.
    time_unit
        The unit of integer times: ``"ns"``, ``"us"``, ``"ms"`` or ``"s"``. Windows are returned in
        it. Timestamps and dates have their own.
    time_format
        The format of times that are text, such as ``"%d/%m/%Y %H:%M:%S"`` or ``"iso"``; without
        it they are ISO 8601. A text without a zone is in UTC.
    schema
        The columns of the events, if they are known already: a mapping from names to type names, an
        Arrow schema or table, a DataFrame. Without it, names and types are checked later.

    Raises
    ------
    OptionError
        If an argument is of another type than described here, or names no unit (E590, E592); it
        is a TypeError and a ValueError too.
    QuerySyntaxError
        If the text cannot be parsed (E1xx).
    BindError
        If names, types or clauses do not fit together (E2xx, E3xx); all mistakes at once.
    UnsupportedError
        If the query asks for something that does not exist yet (E4xx).

    Examples
    --------
    >>> q = query("RETURN COUNT(*) PATTERN Stock S+ WHERE S.price > NEXT(S).price")
    >>> q.plan.choice.evaluator.value
    'indexed'
    """
    kinds = "" if type is None else type
    options.texts(text=text, time=time, type=kinds)
    tiebreakers = options.names_in("tiebreak", tiebreak)
    options.one_of("time_unit", time_unit, TICKS_NS)
    bare = Source(time, kinds, tiebreakers, None, time_unit, time_format=as_format(time_format))
    parsed = parse(text)
    source = with_schema(bare, parsed, schema)
    return CompiledQuery(parsed, compile_query(parsed, text, source), source)


def sql(
    spark: Any = None,
    text: Any = None,
    *,
    tables: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    explain: bool = False,
    analyze: bool = False,
    search_steps: int | None = None,
    search_states: int | None = None,
    watermark: str | None = None,
) -> Any:
    """Run SQL with MATCH_RECOGNIZE clauses, on Spark or in process.

    ``sql(spark, text)`` runs on Spark and returns a DataFrame; a clause may stand wherever a table
    may, and the rest of the text is Spark SQL. If a clause reads a stream, the DataFrame is
    streaming too, and emits a match when no later row can change it. ``sql(text, tables={...})``
    runs in process over all events that :meth:`CompiledQuery.run` takes there. Of files and event
    stores it reads only what the clauses need. If the query around the clauses is more than a
    SELECT over one table, it runs on a local Spark session. ``docs/sql.md`` describes the clause.

    Parameters
    ----------
    spark
        A Spark session, or the text itself if it runs in process.
    text
        The SQL text.
    tables
        Tables by their names in the text. With Spark, they are added to its own tables.
    strategy
        For event stores in process: ``"index"`` uses all indexes, ``"replay"`` reads everything. By
        default the cost decides.
    explain, analyze
        Explain how the clauses run: which part of event stores they read, and why; for a stream,
        the state they keep, or why they cannot read one. ``analyze``, in process, also runs the
        clauses, and reports their reads.
    search_steps, search_states
        Limits of the search in a partition, if conditions read other rows of the match: the
        number of rows tried, and of partial matches remembered (E612, E616).
    watermark
        The allowed lateness of a stream, such as ``"10 seconds"``; a stream needs it.

    Returns
    -------
    pyspark.sql.DataFrame, pyarrow.Table, or a DataFrame of pandas or Polars
        With Spark a DataFrame; otherwise Arrow, or pandas or Polars if all tables are. A text with
        ``explain`` or ``analyze``.

    Raises
    ------
    OptionError
        If an argument is of another type than described here (E592), none of the choices (E590),
        or without effect (E591).
    QuerySyntaxError
        If a clause cannot be parsed (E601, E602, E615).
    BindError
        If names or types do not fit (E603 to E606, E608, E609, E613).
    UnsupportedError
        If the pattern is too large (E607), or a clause reads a stream and cannot be live (E405).
    DataError
        If the data is at fault (E610 to E612, E614, E616).

    Examples
    --------
    >>> import pyarrow as pa
    >>> ticks = pa.table({"seq": [1, 2, 3, 4], "price": [9, 7, 5, 6]})
    >>> sql('''
    ...     SELECT * FROM ticks MATCH_RECOGNIZE (
    ...         ORDER BY seq
    ...         MEASURES A.price AS top, LAST(B.price) AS bottom
    ...         PATTERN (A B+) DEFINE B AS price < PREV(price)
    ...     )''', tables={"ticks": ticks}).to_pylist()
    [{'top': 9, 'bottom': 5}]
    """
    if isinstance(spark, str):
        if text is not None:
            message = "the text is given twice: use sql(text, tables={...}) or sql(spark, text)"
            options.refuse("E592", message)
        spark, text = None, spark
    options.texts(text=text)
    options.check_sql(
        spark, tables, strategy=strategy, explain=explain, analyze=analyze, watermark=watermark
    )
    asked = runtimes.SqlRequest(
        text,
        tables,
        strategy,
        options.whole("search_steps", search_steps),
        options.whole("search_states", search_states),
        watermark,
    )
    if explain or analyze:
        return runtimes.explain_sql(spark, asked, analyze=analyze)
    return runtimes.run_sql(spark, asked)
