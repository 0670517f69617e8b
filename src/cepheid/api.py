"""The public functions and methods; each calls one layer after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import msgspec

from cepheid import options, runtimes
from cepheid.arguments import source_of
from cepheid.errors import Diagnostic
from cepheid.events.schema import fixed_columns
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.own import OwnFunction
from cepheid.jobs.changes.explain import explain_changes
from cepheid.jobs.explain import explain_html, explain_mermaid, explain_plan, explain_short
from cepheid.jobs.kind import compile_query, kind_of
from cepheid.jobs.relaxed import with_schema
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
    from cepheid.pictures.shown import Shown
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


_PLANNED = "_planned"
"""The attribute with the last schema and the plan for it; it is no part of the query's value."""


class CompiledQuery(msgspec.Struct, frozen=True, dict=True):
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
        """Return the format of text times."""
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
        events: object = None,
        spark: object = None,
        analyze: bool = False,
        changes: bool = False,
    ) -> str:
        """Explain the plan in words, every choice with its reason.

        Parameters
        ----------
        schema
            The columns of the events, if they were not known when the query was made.
        format
            ``"text"``, ``"mermaid"`` (a flowchart of the pattern) or ``"json"`` (the plan itself).
        engine
            ``"spark"`` adds how Spark cuts the work into tasks, ``"gpu"`` if a GPU would run it.
        store
            An event store, or a dict of them by name: explains which part the query reads.
        analyze
            Run the query over ``events`` (and ``spark``), as :meth:`run` takes them, or look at a
            live query of Spark: events, state, rows, seconds, bytes, decisions; or, with ``store``,
            what it reads. ``engine="spark"`` instead estimates all strategies over ``events``.
        changes
            Add how rows follow a table that changes.
        """
        options.check_explain(
            self.plan.streams, schema=schema, shown=format, engine=engine, store=store,
            events=events, spark=spark, analyze=analyze, changes=changes,
        )  # fmt: skip
        if store is not None:
            return runtimes.explain_store(self, store, analyze=analyze)
        if analyze:
            return f"{explain_plan(self.plan)}\n{runtimes.analyze_query(self, events, spark)}"
        planned = self if schema is None else self.with_schema(schema)
        if format == "mermaid":
            return explain_mermaid(planned.plan)
        if format == "json":
            return msgspec.json.format(planned.plan.to_json(), indent=2).decode()
        text = explain_plan(planned.plan, spark=engine == "spark")
        text += f"\n{explain_changes(planned.plan)}" if changes else ""
        text += f"\n{runtimes.explain_costs(planned, events, spark)}" if events is not None else ""
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
        changes: object = None,
    ) -> Any: ...

    def run(
        self,
        events: object,
        *,
        spark: object = None,
        strategy: str | None = None,
        device: str = "cpu",
        changes: object = None,
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
        changes
            The events are a changelog, and the query runs over its current table: the column of
            the operation, or ``{"op": "op", "id": ["trade_id"]}`` (``docs/changes.md``).

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
        asked = runtimes.Request(self, events, spark, strategy, device, changes=changes)
        return runtimes.run(asked)

    def show(self, events: object, *, spark: object = None) -> Shown:
        """Run the query and draw its rows: a notebook shows the picture that tells most.

        Events and ``spark`` are those of :meth:`run`. The answer has the ``result``, and
        ``timeline()``, ``chart()`` and ``funnel()`` draw it (``docs/notebooks.md``).
        """
        # Arrow takes longer to load than planning a query takes.
        from cepheid.pictures.shown import shown

        return shown(self.plan, self.run(events, spark=spark), events, self.source.time_unit)

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
            If the query returns aggregates; else as for :meth:`run`.

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

    def stream(
        self,
        events: object,
        *,
        watermark: str,
        late: str = "drop",
        bad: str = "drop",
        max_ahead: str = "1 day",
        idle: str | None = None,
        allowed_lateness: str | None = None,
        since: Any = None,
        backfill: Any = None,
        changes: object = None,
        marks: bool = False,
        hot_keys: str | None = None,
        shed: str | None = None,
        shed_notes: str | None = None,
        latency: str | None = None,
    ) -> Any:
        """Run the query over a live stream; each row of a closed window is emitted once.

        Parameters
        ----------
        events
            A streaming DataFrame of Spark; for a SELECT over two streams a dict by name.
        watermark
            How far events may be behind the latest one (``"10 seconds"``), or ``"carried"`` by
            events that are rows of a query with ``marks``.
        late
            The treatment of events behind the watermark, always counted; ``"side"`` returns them,
            too. With ``"correct"`` those within ``allowed_lateness`` change rows that left.
        bad
            The treatment of records that are no events: unreadable, without a time or a key, or
            ahead of the clock; as for ``late``, and ``"fail"`` stops the query (E526).
        max_ahead, allowed_lateness
            How far a time may be ahead of the clock, that of the micro-batch in Spark's log; with
            ``late="correct"``, how far behind the watermark events may come.
        idle, since, backfill
            How long the source may be silent before time goes on without events (``"1 minute"``);
            the time from which on live events count, and a store that has those before it.
        changes, marks
            The stream is a changelog, as for :meth:`run`, and so are the rows; whether rows carry
            the watermark of a pipeline, in a column ``_watermark``.
        hot_keys, shed, shed_notes
            Folders that all workers see: keys noted in the first are split over buckets; if
            micro-batches take longer than ``shed`` says (``"2 seconds"``), events are dropped,
            which is noted in the last, and counted in a column ``shed`` of rows.
        latency
            How long a row may wait (``"1 second"``): micro-batches take as much as this allows.

        Returns
        -------
        pyspark.sql.DataFrame, or a tuple of them
            The rows, for output mode append, then late events and bad records, for ``"side"``.

        Raises
        ------
        BindError, UnsupportedError
            As for :meth:`run`; E405 if windows never close, E406, E407 for ``idle``, ``late``.
        """
        given = (watermark, late, bad, max_ahead, idle, allowed_lateness, changes, marks, False)
        past = runtimes.with_past(self, events, runtimes.Past(backfill, since, changes))
        asked = options.LiveOptions(*given, hot_keys, shed, shed_notes, latency)
        return runtimes.stream(self, past, asked)

    def live(
        self,
        schema: object,
        *,
        watermark: str | None = None,
        state: bytes | None = None,
        changes: object = None,
        device: str = "cpu",
    ) -> Any:
        """Run the query over a stream in this process, batch by batch.

        Parameters
        ----------
        schema
            An Arrow schema, or a table that has it; for a join a dict by the names of streams.
        watermark
            The allowed lateness, such as ``"10 seconds"``: events are sorted as long as they are
            not further behind the latest event so far. Later ones are dropped and counted.
        state, changes
            What ``save()`` returned; and whether the stream is a changelog, as for :meth:`run`.
        device
            ``"cpu"``, ``"gpu"``, or ``"auto"``: large batches run on a GPU where that is faster.

        Returns
        -------
        LiveQuery
            ``feed(events)`` gives rows that are final, ``close()`` the rest, ``save()`` the state.

        Raises
        ------
        UnsupportedError, DataError
            E404 for EMIT EARLY, E405 if windows never close, E551 to E554 of ``device="gpu"``;
            E524 if the state is that of another query, E546 if it is damaged.

        Examples
        --------
        >>> import pyarrow as pa
        >>> q = query("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 us SLIDE 10 us")
        >>> live = q.live(pa.schema({"ts": pa.int64(), "type": pa.string()}))
        >>> live.feed([{"ts": 1, "type": "A"}, {"ts": 2, "type": "B"}]).num_rows
        0
        >>> live.feed({"ts": 12, "type": "A"}).to_pylist()
        [{'window_start': 0, 'window_end': 10, 'count': 1.0}]
        """
        return runtimes.live(self, schema, watermark, state, changes, device)

    def with_schema(self, schema: object) -> CompiledQuery:
        """Plan the query for events with these columns; a plan is kept for the next run."""
        columns, last = fixed_columns(schema), self.__dict__.get(_PLANNED)
        if last is not None and columns is not None and last[0] == columns:
            return cast("CompiledQuery", last[1])
        source = with_schema(self.source, self.tree, schema)
        plan = compile_query(self.tree, self.text, source)
        if self.evaluator is not None:
            plan = kind_of(plan).with_evaluator(plan, self.evaluator)
        planned = CompiledQuery(self.tree, plan, source, self.evaluator)
        if columns is not None:
            self.__dict__[_PLANNED] = (columns, planned)
        return planned

    def with_evaluator(self, evaluator: str) -> CompiledQuery:
        """Plan the query with ``"linear"``, ``"indexed"``, ``"previous"`` or ``"pairwise"``.

        All that can answer it return the same result, and the others raise a ValueError.
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
    functions: Iterable[OwnFunction] | None = None,
) -> CompiledQuery:
    """Parse, check and plan a query.

    Parameters
    ----------
    text
        The query; ``docs/language.md`` describes the language.
    time
        The column that holds an event's time.
    type
        The column that holds its type. None says that all events have one type.
    tiebreak
        Columns that order events of equal time under ``TIES arrival``.
    time_unit
        ``"ns"``, ``"us"``, ``"ms"`` or ``"s"``: the unit of integer times, also of windows.
    time_format
        The format of times that are text, such as ``"%d/%m/%Y %H:%M:%S"`` or ``"iso"``; without
        it they are ISO 8601. A text without a zone is in UTC.
    schema
        The columns of the events, if they are known already: a mapping from names to type names, an
        Arrow schema or table, a DataFrame. Without it, names and types are checked later.
    functions
        What :func:`cepheid.function` returned; without it, all registered functions are known.

    Raises
    ------
    OptionError
        If an argument is not as described (E590, E592); it is a TypeError and ValueError too.
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
    options.texts(text=text)
    bare = source_of(time, type, tiebreak, time_unit, time_format, functions)
    parsed = tree.with_own_functions(parse(text), bare.functions)
    source = with_schema(bare, parsed, schema)
    return CompiledQuery(parsed, compile_query(parsed, text, source), source)
