"""The verbs behind the public names; each calls one layer after the other."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any

import msgspec

from cepheid.errors import Diagnostic
from cepheid.events.schema import read_schema
from cepheid.language import tree
from cepheid.language.formatter import format_query
from cepheid.language.parser import parse
from cepheid.planner.bind import Source
from cepheid.planner.compile import compile_query
from cepheid.planner.explain import explain_mermaid, explain_plan
from cepheid.planner.granularity import force_evaluator
from cepheid.planner.plan import Evaluator, Plan


class CompiledQuery(msgspec.Struct, frozen=True):
    """A query that was read, checked and planned; made by :func:`query`."""

    tree: tree.Query
    plan: Plan
    source: Source
    evaluator: str | None = None

    @property
    def text(self) -> str:
        """Return the text as the user wrote it."""
        return self.plan.text

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return what is allowed and perhaps not meant."""
        return self.plan.warnings

    def explain(
        self,
        *,
        schema: object = None,
        format: str = "text",  # noqa: A002  # fixed name
        engine: str = "local",
    ) -> str:
        """Return the plan in words, every choice with its reason.

        Parameters
        ----------
        schema
            The columns of the events, if they were not known when the query was made; see
            :func:`query`.
        format
            ``"text"``, ``"mermaid"`` (a flowchart of the pattern) or ``"json"`` (the plan itself).
        engine
            ``"spark"`` adds to the text how Spark cuts the work into tasks.

        Examples
        --------
        >>> print(query("RETURN COUNT(*) PATTERN SEQ(Login, Transfer)").explain().splitlines()[0])
        plan  count
        """
        plan = self.plan if schema is None else self.with_schema(schema).plan
        formats = {
            "text": lambda: explain_plan(plan, spark=engine == "spark"),
            "mermaid": lambda: explain_mermaid(plan),
            "json": lambda: msgspec.json.format(plan.to_json(), indent=2).decode(),
        }
        if format not in formats:
            message = f"format must be one of {', '.join(formats)}, not {format!r}"
            raise ValueError(message)
        return formats[format]()

    def run(self, events: object, *, spark: object = None, strategy: str | None = None) -> Any:
        """Run the query over events and return its result.

        Parameters
        ----------
        events
            A pyarrow Table, RecordBatch or RecordBatchReader, a pandas DataFrame, a Spark
            DataFrame, or the path of files: one, a folder, or a pattern such as
            ``"events/*.parquet"``. Tables and data frames that are not in the order of time are
            sorted, with a warning; readers must be in order.
        spark
            A Spark session that reads the files; without one they are read in this process.
        strategy
            How Spark cuts the work into tasks: ``"combine"`` or ``"key shuffle"``, for files also
            ``"scan slices"``. Without it the plan decides; ``explain(engine="spark")`` says how.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or pyspark.sql.DataFrame
            Arrow and paths give Arrow, pandas gives pandas, Spark gives Spark. Rows are sorted by
            window and group, but for Spark.

        Raises
        ------
        BindError
            If the events lack a column that the query names, or one has an unfit type.
        DataError
            If the events themselves are at fault (E5xx).
        UnsupportedError
            If the query needs an evaluator that does not exist yet (E404).

        Examples
        --------
        >>> import pyarrow as pa
        >>> events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]})
        >>> query("RETURN COUNT(*) PATTERN SEQ(A+, B)").run(events).to_pylist()
        [{'count': 3.0}]
        """
        # Loaded on first use: reading and explaining a query needs neither numba nor Arrow.
        if isinstance(events, str | PathLike):
            path = fspath(events)
            if spark is None:
                return importlib.import_module("cepheid.runtime.files").run_path(self, path)
            scan = importlib.import_module("cepheid.runtime.spark_scan")
            return scan.run_path(self, path, spark, strategy=strategy)
        if type(events).__module__.partition(".")[0] == "pyspark":
            batch = importlib.import_module("cepheid.runtime.spark_batch")
            return batch.run_frame(self, events, strategy=strategy)
        return importlib.import_module("cepheid.runtime.local").run_events(self, events)

    def stream(self, events: object, *, watermark: str, late: str = "drop") -> Any:
        """Run the query over a live stream and return the rows of closed windows, each once.

        Parameters
        ----------
        events
            A streaming DataFrame of Spark.
        watermark
            How late events may come, such as ``"10 seconds"``: they are put in order as long as
            they are not further behind the latest event so far.
        late
            What becomes of events that come later than that. They are counted in the progress of
            the query; ``"side"`` returns them too.

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
        live = importlib.import_module("cepheid.runtime.spark_stream")
        return live.stream_frame(self, events, watermark=watermark, late=late)

    def with_schema(self, schema: object) -> CompiledQuery:
        """Return the query planned for events with these columns."""
        source = msgspec.structs.replace(self.source, schema=read_schema(schema))
        plan = compile_query(self.tree, self.text, source)
        if self.evaluator is not None:
            plan = force_evaluator(plan, Evaluator(self.evaluator))
        return CompiledQuery(self.tree, plan, source, self.evaluator)

    def with_evaluator(self, evaluator: str) -> CompiledQuery:
        """Return the query with another evaluator, to compare or to measure them.

        Parameters
        ----------
        evaluator
            ``"linear"``, ``"indexed"``, ``"previous"`` or ``"pairwise"``; all that can answer the
            query give the same answer.

        Raises
        ------
        ValueError
            If this evaluator cannot answer the query.
        """
        plan = force_evaluator(self.plan, Evaluator(evaluator))
        return CompiledQuery(self.tree, plan, self.source, evaluator)

    def format(self) -> str:
        """Return the query in canonical layout."""
        return format_query(self.tree)


def query(
    text: str,
    *,
    time: str = "ts",
    type: str = "type",  # noqa: A002  # fixed name
    tiebreak: Iterable[str] = (),
    schema: object = None,
) -> CompiledQuery:
    """Read, check and plan a query.

    Parameters
    ----------
    text
        The query; ``docs/language.md`` describes the language.
    time, type
        The columns that hold an event's time and type. Events without a type column all have one
        type.
    tiebreak
        Columns that order events of equal time under ``TIES arrival``.
    schema
        The columns of the events, if they are known already: a mapping from names to type names, an
        Arrow schema or table, a Spark DataFrame. Without it, names and types are checked later.

    Raises
    ------
    TypeError
        If an argument is of another type than described here.
    QuerySyntaxError
        If the text cannot be read (E1xx).
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
    for name, value in (("text", text), ("time", time), ("type", type)):
        if not isinstance(value, str):
            message = f"{name} is a str, not {value.__class__.__name__}"
            raise TypeError(message)
    if isinstance(tiebreak, str):
        message = "tiebreak is a list of column names, not one string"
        raise TypeError(message)
    tiebreakers = tuple(tiebreak)
    if not all(isinstance(name, str) for name in tiebreakers):
        message = "tiebreak is a list of column names, and names are str"
        raise TypeError(message)
    source = Source(time, type, tiebreakers, read_schema(schema))
    parsed = parse(text)
    return CompiledQuery(parsed, compile_query(parsed, text, source), source)
