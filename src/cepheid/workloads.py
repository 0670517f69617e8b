"""Workloads of many queries over one stream: the methods behind ``cepheid.workload``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from cepheid import options, runtimes
from cepheid.api import CompiledQuery, query
from cepheid.arguments import source_of
from cepheid.errors import CepheidError, Diagnostic, UnsupportedError
from cepheid.events.schema import fixed_columns
from cepheid.events.time_formats import TextTimes
from cepheid.expressions.own import OwnFunction
from cepheid.kinds.pipeline.single import as_pipeline
from cepheid.kinds.workload.explain import explain_shared
from cepheid.kinds.workload.sharing import SharedPlan, share
from cepheid.patterns.scope import Source
from cepheid.plans.plan import PipelinePlan, TrendPlan
from cepheid.plans.sweep import SweepPlan

_SHARED = "_shared"
"""The attribute with the last schema and the plan for it; it is no part of the workload's value."""


class Workload(msgspec.Struct, frozen=True, dict=True):
    """Queries that run together in one pass over a stream; made by :func:`workload`."""

    names: tuple[str, ...]
    queries: tuple[CompiledQuery, ...]
    merge: bool = True

    @property
    def times(self) -> TextTimes:
        """Return the format of text times, which all queries share."""
        return self.queries[0].times

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        plural = "y" if len(self) == 1 else "ies"
        shown = ", ".join(self.names[:6]) + (", …" if len(self) > 6 else "")
        return f"Workload  {len(self)} quer{plural}: {shown}"

    def __getitem__(self, name: str) -> CompiledQuery:
        return self.queries[self.names.index(name)]

    def explain(
        self,
        *,
        schema: object = None,
        events: object = None,
        spark: object = None,
        analyze: bool = False,
    ) -> str:
        """Explain the work that the queries share, as a tree of lines.

        Parameters
        ----------
        schema
            The columns of the events, if they were not known when the queries were made.
        events, spark, analyze
            Run all queries over events, as for :meth:`CompiledQuery.explain`.

        Examples
        --------
        >>> w = workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)",
        ...               "ac": "RETURN COUNT(*) PATTERN SEQ(A, C)"})
        >>> print(w.explain().splitlines()[0])
        workload  2 queries, 1 group
        """
        options.check_explain(
            (), schema=schema, shown="text", engine="local", store=None,
            events=events, spark=spark, analyze=analyze,
        )  # fmt: skip
        told = explain_shared(self.shared(schema))
        return f"{told}\n{runtimes.analyze_workload(self, events, spark)}" if analyze else told

    def run(
        self, events: object, *, spark: object = None, separate: bool = False, device: str = "cpu"
    ) -> Any:
        """Run all queries in one pass over events.

        Parameters
        ----------
        events, spark
            As for :meth:`CompiledQuery.run`; of an event store all events are read, once.
        separate
            Whether each query gets a table of its own.
        device
            For tables, readers and data frames in this process: ``"cpu"``, ``"gpu"`` or
            ``"auto"``, as for :meth:`CompiledQuery.run`.

        Returns
        -------
        pyarrow.Table, or a DataFrame of pandas, Polars or Spark
            One table with the results of all queries, one after the other in the order of the
            workload: the column ``query`` has the name of the query, then come the columns of all
            queries, each once, NULL where a query has no such column. With ``separate``, a dict of
            tables by the names of the queries, each the same as that of the query alone.

        Raises
        ------
        BindError, DataError, UnsupportedError
            As for :meth:`CompiledQuery.run`; messages name the query in the place of a file.
            E531 if columns of one name have different types; ``separate`` keeps them apart.

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
        >>> w = workload({"pairs": "RETURN COUNT(*) PATTERN SEQ(A, B)",
        ...               "trends": "RETURN COUNT(*) PATTERN SEQ(A+, B)"})
        >>> w.run(events).to_pylist()
        [{'query': 'pairs', 'count': 2.0}, {'query': 'trends', 'count': 3.0}]
        """
        options.true_or_false(separate=separate)
        options.check_run(events, spark=spark, strategy=None, device=device, streams=(), text="")
        asked = runtimes.Request(self, events, spark, None, device, separate)
        return runtimes.WORKLOADS[asked.place](asked)

    def stream(
        self,
        events: object,
        *,
        watermark: str,
        late: str = "drop",
        bad: str = "drop",
        max_ahead: str = "1 day",
        idle: str | None = None,
        latency: str | None = None,
    ) -> Any:
        """Run the queries over a live Spark stream and return the rows of closed windows.

        Parameters
        ----------
        events, watermark, late, bad, max_ahead, idle, latency
            As for :meth:`CompiledQuery.stream`.

        Returns
        -------
        pyspark.sql.DataFrame, or a tuple of them
            The rows of all queries, each once, with the columns of :meth:`run`, for output mode
            append, then late events and bad records as for a query. If it starts on the
            checkpoint of another workload, queries with the same name and text continue with their
            state; others begin with the events that have not passed the watermark.

        Raises
        ------
        BindError, UnsupportedError
            As for :meth:`CompiledQuery.stream`, and E405 for EMIT EARLY; messages name the query.
        DataError
            E531 if columns of one name have different types.
        """
        asked = options.LiveOptions(watermark, late, bad, max_ahead, idle, latency=latency)
        return runtimes.stream_workload(self, events, asked)

    def live(self, schema: object) -> Any:
        """Run the queries over a stream in this process, batch by batch; rules can change.

        Parameters
        ----------
        schema
            An Arrow schema, or a table that has it: the columns of the batches.

        Returns
        -------
        LiveRules
            ``feed(events)`` returns the rows of complete windows, ``close()`` the rest;
            ``add(workload)`` and ``remove(name)`` change the rules between batches.

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2], "type": ["A", "B"]})
        >>> rules = workload({"ab": "RETURN COUNT(*) PATTERN SEQ(A, B)"}).live(events.schema)
        >>> rules.feed(events).num_rows
        0
        >>> rules.add(workload({"b": "RETURN COUNT(*) PATTERN B"}))
        >>> rules.feed(pa.table({"ts": [3], "type": ["B"]})).num_rows
        0
        >>> rules.close().to_pylist()
        [{'query': 'ab', 'count': 2.0}, {'query': 'b', 'count': 1.0}]
        """
        return runtimes.live_workload(self, schema)

    def shared(self, schema: object = None) -> SharedPlan:
        """Plan the workload for events with these columns; a plan is kept for the next run."""
        columns, last = fixed_columns(schema), self.__dict__.get(_SHARED)
        if last is not None and columns is not None and last[0] == columns:
            return cast("SharedPlan", last[1])
        shared = self._share(schema)
        if columns is not None:
            self.__dict__[_SHARED] = (columns, shared)
        return shared

    def _share(self, schema: object) -> SharedPlan:
        """Plan the workload anew."""
        trends: dict[str, TrendPlan] = {}
        beside: dict[str, PipelinePlan] = {}
        for name, compiled in zip(self.names, self.queries, strict=True):
            try:
                plan = (compiled if schema is None else compiled.with_schema(schema)).plan
            except CepheidError as error:
                error.file = name
                raise
            if plan.shares_passes:
                trends[name] = TrendPlan.of(plan)
            else:
                beside[name] = as_pipeline(plan)
        return share(tuple(trends), list(trends.values()), merge=self.merge, beside=beside)


Queries = Mapping[str, CompiledQuery | str] | Iterable[CompiledQuery | str]


def workload(
    queries: Queries,
    *,
    time: str = "ts",
    type: str | None = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    time_unit: str = "us",
    time_format: str | None = None,
    merge: bool = True,
    functions: Iterable[OwnFunction] | None = None,
) -> Workload:
    """Combine queries, so that they run in one pass over a stream and share work.

    Parameters
    ----------
    queries
        Queries by name, or a list of them, which get the names q1, q2, and so on. A query is what
        :func:`query` returns, or a text.
    time, type, tiebreak, time_unit, time_format, functions
        For queries that are texts, as in :func:`query`.
    merge
        Whether queries are merged where possible. If False they only share the reading, to compare
        or to measure.

    Raises
    ------
    TypeError
        If an argument is of another type than described here.
    ValueError
        If there is no query, or if their columns of time, type and ties differ.
    QuerySyntaxError, BindError, UnsupportedError
        As for :func:`query`; messages name the query in the place of a file.

    Examples
    --------
    >>> w = workload({"falls": "RETURN COUNT(*) PATTERN Stock S+ WHERE S.price > NEXT(S).price"})
    >>> w["falls"].plan.choice.evaluator.value
    'indexed'
    """
    if isinstance(queries, str | CompiledQuery) or not isinstance(queries, Iterable):
        options.refuse("E592", "queries are a dict of queries by name, or a list of them")
    options.true_or_false(merge=merge)
    if isinstance(queries, Mapping):
        named = dict(queries)
    else:
        named = {f"q{number}": one for number, one in enumerate(queries, 1)}
    source = source_of(time, type, tiebreak, time_unit, time_format, functions)
    compiled = {}
    for name, one in named.items():
        if not isinstance(name, str):
            message = f"the name of a query is a str, not {name.__class__.__name__}"
            options.refuse("E592", message)
        compiled[name] = _compiled(name, one, source)
        plan = compiled[name].plan
        if len(set(plan.streams)) > 1:
            message = f"a workload reads one stream, and the query `{name}` joins two"
            helps = ("run it on its own", "or write the events of both into one stream")
            raise UnsupportedError([Diagnostic("E404", message, helps=helps)], compiled[name].text)
        if isinstance(plan, SweepPlan):
            message = f"a sweep runs on its own, and the query `{name}` is one"
            helps = ("write a query for each value", "or run the sweep beside the workload")
            raise UnsupportedError([Diagnostic("E430", message, helps=helps)], compiled[name].text)
    if not compiled:
        options.refuse("E592", "a workload has at least one query")
    sources = {
        msgspec.structs.replace(q.source, schema=None, schemas=(), functions=())
        for q in compiled.values()
    }
    if len(sources) > 1:
        message = "the queries of a workload have the same columns of time, type and ties"
        options.refuse("E592", message)
    return Workload(tuple(compiled), tuple(compiled.values()), merge)


def _compiled(name: str, one: object, source: Source) -> CompiledQuery:
    if isinstance(one, CompiledQuery):
        return one
    if not isinstance(one, str):
        message = f"`{name}` is a query or a text, not {one.__class__.__name__}"
        options.refuse("E592", message)
    try:
        return query(
            one,
            time=source.time,
            type=source.type,
            tiebreak=source.tiebreak,
            time_unit=source.time_unit,
            time_format=source.time_format,
            functions=source.functions,
        )
    except CepheidError as error:
        error.file = name
        raise
