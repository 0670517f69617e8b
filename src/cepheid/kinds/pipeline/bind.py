"""Bind a pipeline: plan every query over the streams that it reads, and find a common key (§15)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from cepheid.errors import CepheidError, Diagnostic, Span, suggest_names
from cepheid.events.schema import EventSchema, ValueKind, read_schema
from cepheid.expressions.own import united
from cepheid.jobs.kind import compile_query, kind_of
from cepheid.kinds.pipeline.keys import common_keys, describe_keys
from cepheid.language import tree
from cepheid.language.findings import Findings
from cepheid.patterns.scope import DEFAULT_TYPE, Source
from cepheid.plans.plan import (
    BASE_STREAM,
    Choice,
    Evaluator,
    Granularity,
    Partition,
    PipelinePlan,
    Plan,
    SelectPlan,
    StagePlan,
)


class Bound(NamedTuple):
    """Streams so far: their names, their columns if known, and the stages that make them."""

    names: tuple[str, ...]
    schemas: tuple[EventSchema | None, ...]
    stages: tuple[StagePlan, ...]
    warnings: tuple[Diagnostic, ...]


def compile_pipeline(query: tree.PipelineQuery, text: str, source: Source) -> PipelinePlan:
    """Plan the queries of a pipeline, one after the other.

    Raises
    ------
    BindError
        E35x for streams that do not fit together, and all mistakes of the first query that has any.
    UnsupportedError
        E412 to E415 if a query cannot feed a stream.
    """
    findings = Findings()
    _check_names(query, findings)
    _check_sweeps(query, findings)
    findings.raise_errors(text)
    bound = Bound(("",), (source.schema,), (), ())
    for number in range(len(query.stages)):
        bound = _add_stage(bound, query.stages, number, text, source)
    _check_read(query, bound, findings)
    return _plan_of(query, text, source, bound, findings)


def _check_sweeps(query: tree.PipelineQuery, findings: Findings) -> None:
    """Report constants with many values: a stage is one query (E430)."""
    for node in tree.walk(query):
        if isinstance(node, tree.Sweep):
            message = "`SWEEP` cannot stand in a pipeline"
            findings.add("E430", message, node.span, "write a pipeline for each value")


def _check_names(query: tree.PipelineQuery, findings: Findings) -> None:
    """Report streams of one name, streams that are read before they are there, and two inputs."""
    seen: dict[str, tree.Name] = {}
    names = {stage.name.text: stage.name for stage in query.stages if stage.name is not None}
    base: tree.Name | None = None
    for stage in query.stages:
        for name in _named_in(stage.query):
            if name.text in names and name.text not in seen:
                own = stage.name is not None and stage.name.text == name.text
                why = "reads itself" if own else "is defined further down"
                help_ = "define a stream before the queries that read it"
                findings.add("E354", f"the stream `{name.text}` {why}", name.span, help_)
        for name in streams_read(stage.query):
            if name.text not in names:
                base = base or name
                if name.text != base.text:
                    message = f"a pipeline reads one stream, and these are `{base.text}` and "
                    help_ = "give both the same name, or write their events into one stream"
                    findings.add("E356", f"{message}`{name.text}`", name.span, help_)
        if stage.name is not None:
            if stage.name.text in seen:
                message = f"two streams are called `{stage.name.text}`"
                findings.add("E353", message, stage.name.span, "give each a name of its own")
            seen[stage.name.text] = stage.name


def streams_read(query: tree.Query) -> Iterator[tree.Name]:
    """Yield the names after FROM and JOIN."""
    if isinstance(query, tree.SelectQuery):
        yield from (stream.name for stream in query.streams)
    elif isinstance(query, tree.SituationQuery | tree.RowPatternQuery) and query.source is not None:
        yield query.source


def _named_in(query: tree.Query) -> Iterator[tree.Name]:
    """Yield all names that may be those of streams: after FROM and JOIN, and types of patterns."""
    yield from streams_read(query)
    if not isinstance(query, tree.SelectQuery | tree.SituationQuery):
        for node in tree.walk(query.pattern):
            if isinstance(node, tree.EventPattern):
                yield node.event_type


def _reads(query: tree.Query, names: Sequence[str]) -> tuple[int, ...]:
    """Find the streams that a query reads, by number; 0 is the base stream (§15.4)."""
    places = {name: place for place, name in enumerate(names) if place}
    found = [places.get(name.text, BASE_STREAM) for name in _named_in(query)]
    if isinstance(query, tree.SelectQuery):
        return tuple(dict.fromkeys(found))
    return tuple(sorted(set(found))) or (BASE_STREAM,)


def _add_stage(
    bound: Bound, stages: Sequence[tree.StageQuery], number: int, text: str, source: Source
) -> Bound:
    """Plan a query over the streams so far, and add the stream that it makes."""
    stage, last = stages[number], number == len(stages) - 1
    reads = _reads(stage.query, bound.names)
    findings = Findings()
    _check_types(stage, reads, source, findings)
    schema = _merged(bound, reads, stage, source, findings)
    findings.raise_errors(text)
    own = _source_of(bound, reads, stage.query, source, schema)
    plan = compile_query(stage.query, text, own)
    _check_attributes(stage.query, bound, reads, findings)
    findings.raise_errors(text)
    name = "" if stage.name is None else stage.name.text
    planned = StagePlan(name, plan, reads)  # type: ignore[arg-type]  # no pipeline in a pipeline
    columns: EventSchema | None = None
    if not last:
        planned = _derived(planned, stage, text)
        columns = _event_columns(planned, bound, source)
    return Bound(
        (*bound.names, name),
        (*bound.schemas, columns),
        (*bound.stages, planned),
        (*bound.warnings, *plan.warnings),
    )


def _derived(planned: StagePlan, stage: tree.StageQuery, text: str) -> StagePlan:
    """Plan how the rows of a stage become events; errors point to its name."""
    try:
        found = kind_of(planned.plan).derive(planned.plan)
    except CepheidError as error:
        assert stage.name is not None, "only the last query has no name"
        told = msgspec.structs.replace(error.diagnostics[0], span=stage.name.span)
        raise type(error)([told], text) from None
    return StagePlan(
        planned.name,
        found.plan,  # type: ignore[arg-type]  # a plan of the same kind
        planned.reads,
        found.times,
        found.hidden,
        found.at_end,
        found.delay,
        found.at,
    )


def _check_types(
    stage: tree.StageQuery, reads: tuple[int, ...], source: Source, findings: Findings
) -> None:
    """Report a pattern that mixes derived events with base events that have no types (E352)."""
    if isinstance(stage.query, tree.SelectQuery | tree.SituationQuery) or len(reads) < 2:
        return
    if BASE_STREAM not in reads:
        return
    untyped = not source.type
    if source.schema is not None:
        untyped = untyped or source.type not in source.schema.names
    if untyped:
        message = "the pattern reads derived streams and events that have no types"
        help_ = (
            "make the events a stream with a name: `CREATE STREAM name AS SELECT * FROM events;`"
        )
        findings.add("E352", message, stage.query.pattern.span, help_)


def type_column(source: Source) -> str:
    """Name the column that has the type of events; derived events always have one."""
    return source.type or DEFAULT_TYPE


def _source_of(
    bound: Bound,
    reads: tuple[int, ...],
    query: tree.Query,
    source: Source,
    schema: EventSchema | None,
) -> Source:
    """Describe the events that a query reads."""
    kind = source.type if reads == (BASE_STREAM,) else type_column(source)
    if isinstance(query, tree.SelectQuery) and len(query.streams) > 1:
        named = []
        for stream in query.streams:
            place = (
                bound.names.index(stream.name.text)
                if stream.name.text in bound.names
                else BASE_STREAM
            )
            columns = bound.schemas[place]
            if columns is not None:
                named.append((stream.name.text, columns))
        return msgspec.structs.replace(
            source, type=kind, schema=None, schemas=tuple(dict.fromkeys(named)), tiebreak=()
        )
    tiebreak = source.tiebreak
    if schema is not None and reads != (BASE_STREAM,):
        tiebreak = tuple(name for name in tiebreak if name in schema.names)
    return msgspec.structs.replace(source, type=kind, schema=schema, tiebreak=tiebreak)


def _merged(
    bound: Bound,
    reads: tuple[int, ...],
    stage: tree.StageQuery,
    source: Source,
    findings: Findings,
) -> EventSchema | None:
    """Merge the columns of all streams that a query reads; None if one of them is not known."""
    schemas = [bound.schemas[place] for place in reads]
    known = [schema for schema in schemas if schema is not None]
    if len(known) < len(schemas):
        return None
    if len(known) == 1 or isinstance(stage.query, tree.SelectQuery):
        return known[0]
    columns = {column.name: column for schema in known for column in schema.columns}
    used = _names_in(stage.query)
    for schema in known:
        for column in schema.columns:
            other = columns[column.name]
            if other.kind is ValueKind.UNKNOWN:
                columns[column.name] = column
            elif ValueKind.UNKNOWN is not column.kind is not other.kind:
                if column.name in (source.time, source.type):
                    continue
                if used is not None and column.name not in used:
                    continue
                message = f"the column `{column.name}` is of kind {column.kind.value} in one stream"
                message += f" and of kind {other.kind.value} in another one that this query reads"
                help_ = f"give one a name of its own: `AS my_{column.name}`"
                if column.name in ("window_start", "window_end"):
                    help_ = "read one of them through a stream `SELECT` of the other columns"
                findings.add("E355", message, stage.query.pattern.span, help_)
    return EventSchema(tuple(columns.values()))


def _names_in(query: tree.Query) -> set[str] | None:
    """Collect all words of a query that may be columns; None if its rows show whole events."""
    if query.returns is None or not query.returns.items:
        return None
    nodes = [node for node in tree.walk(query) if isinstance(node, tree.Name | tree.Word)]
    return {node.text for node in nodes} | {node.text.partition(".")[0] for node in nodes}


def _check_attributes(
    query: tree.Query, bound: Bound, reads: tuple[int, ...], findings: Findings
) -> None:
    """Report attributes that a derived stream of a pattern does not have (E351)."""
    if isinstance(query, tree.SelectQuery | tree.SituationQuery):
        return
    places = {bound.names[place]: place for place in reads if place}
    types = {
        node.variable.text: places[node.event_type.text]
        for node in tree.walk(query.pattern)
        if isinstance(node, tree.EventPattern) and node.event_type.text in places
    }
    for node in tree.walk(query):
        if isinstance(node, tree.Attribute) and node.variable.text in types:
            _check_attribute(node.attribute, types[node.variable.text], bound, findings)
        if isinstance(node, tree.Equivalence):
            for item in node.items:
                owners = set(types.values())
                if item.variable is not None:
                    owners = {types[item.variable.text]} if item.variable.text in types else set()
                for place in owners:
                    _check_attribute(item.attribute, place, bound, findings)
    for name in query.group_by:
        for place in set(types.values()):
            _check_attribute(name, place, bound, findings)


def _check_attribute(name: tree.Name, place: int, bound: Bound, findings: Findings) -> None:
    schema = bound.schemas[place]
    if schema is None or schema.kind(name.text) is not None:
        return
    message = f"the stream `{bound.names[place]}` has no attribute `{name.text}`"
    near = suggest_names(name.text, schema.names, owner="the stream")
    findings.add("E351", message, name.span, near, "return it from the query that makes the stream")


def _event_columns(stage: StagePlan, bound: Bound, source: Source) -> EventSchema | None:
    """Find the columns of the events that a stage makes; None if those that it reads are unknown.

    A run over no events gives them, with a type for every kind of values.
    """
    read = {place: bound.schemas[place] for place in stage.reads}
    known = {place: schema for place, schema in read.items() if schema is not None}
    if len(known) < len(read):
        return None
    # Arrow and the engine are loaded only where types are known.
    from cepheid.kinds.pipeline.columns import event_columns

    return read_schema(event_columns(stage, known, source.time, type_column(source)))


def _check_read(query: tree.PipelineQuery, bound: Bound, findings: Findings) -> None:
    """Warn about streams that no query reads (W309)."""
    used = {place for stage in bound.stages for place in stage.reads}
    for place, stage in enumerate(query.stages[:-1], 1):
        if place not in used and stage.name is not None:
            message = f"no query reads the stream `{stage.name.text}`"
            help_ = "the rows of a pipeline are those of its last query"
            findings.add("W309", message, stage.name.span, help_)


def _plan_of(
    query: tree.PipelineQuery, text: str, source: Source, bound: Bound, findings: Findings
) -> PipelinePlan:
    keys, why = common_keys(bound.stages)
    choice = Choice(
        evaluator=Evaluator.PIPELINE,
        granularity=Granularity.EVENT,
        reason="the text defines streams",
        span=Span(query.span.start, query.span.start),
        time="that of all stages together",
        state="that of all stages, and events at the watermark",
    )
    ticks = {stage.plan.tick_ns for stage in bound.stages}
    return PipelinePlan(
        text=text,
        time=source.time,
        type=type_column(source),
        tiebreak=source.tiebreak,
        tick_ns=ticks.pop(),
        # A row without a key may still feed a stage that has a group for NULL.
        partition=Partition((), (), keys, describe_keys(keys)),
        choice=choice,
        columns=_base_columns(bound, source),
        warnings=(*bound.warnings, *findings.warnings),
        functions=united(stage.plan.functions for stage in bound.stages),
        stages=bound.stages,
        why_keys=why,
    )


def _base_columns(bound: Bound, source: Source) -> tuple[str, ...] | None:
    """Collect the columns of base events that stages read; None is all of them."""
    names: dict[str, None] = {source.time: None}
    schema = bound.schemas[BASE_STREAM]
    for stage in bound.stages:
        if BASE_STREAM not in stage.reads:
            continue
        wanted = _columns_of(stage.plan, bound.names)
        if wanted is None:
            return None if schema is None else whole_columns(schema)
        if schema is not None:
            known = [n for n in wanted if n in schema.names]
            names |= dict.fromkeys(known)
        else:
            names |= dict.fromkeys(wanted)
    names |= dict.fromkeys(source.tiebreak)
    return tuple(names)


def whole_columns(schema: EventSchema) -> tuple[str, ...]:
    """List the columns without the fields of structures."""
    names = set(schema.names)
    return tuple(n for n in schema.names if n.rpartition(".")[0] not in names)


def _columns_of(plan: Plan, names: Sequence[str]) -> tuple[str, ...] | None:
    """Collect the columns that a stage reads of the base stream."""
    if not isinstance(plan, SelectPlan) or len(plan.streams) == 1:
        return plan.columns
    read = [stream.reads for stream in plan.select.streams if stream.name not in names]
    if None in read:
        return None
    return tuple(name for columns in read for name in columns or ())
