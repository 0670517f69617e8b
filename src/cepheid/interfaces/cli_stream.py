"""``cepheid stream``: the options of a live query."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

from cepheid.errors import CepheidError
from cepheid.interfaces.cli_input import (
    WrongUseError,
    compile_text,
    find_rules,
    given_changes,
    given_text,
    refuse_options,
)
from cepheid.interfaces.cli_options import (
    ChangesOption,
    FormatOption,
    IdOption,
    QueryArgument,
    RulesOption,
    TextOption,
    TimeOption,
    TypeOption,
    UnitOption,
)
from cepheid.interfaces.commands import Option
from cepheid.interfaces.console import complain
from cepheid.interfaces.logs import UNNAMED, Logs, inputs_of
from cepheid.interfaces.rule_queries import EventColumns, Ready, Refusals, ready_rules
from cepheid.interfaces.rule_tables import RuleTable, opened
from cepheid.interfaces.rules import stamp_of


def stream(
    sources: Annotated[
        list[str],
        Option(
            "--source",
            help="Where events come from: a folder, kafka://host:9092/topic,other, or rate:1000 "
            "(events a second). A JOIN of two streams has one for each, as orders=folder; so have "
            "rules of several logs.",
        ),
    ],
    sink: Annotated[
        str,
        Option(
            help="Where rows go: a folder of Parquet files, kafka://host:9092/topic, "
            "postgres://user@host/database/table, webhook:URL, or - to print them."
        ),
    ],
    checkpoint: Annotated[Path, Option(help="The folder from which the query goes on.")],
    file: QueryArgument = None,
    text: TextOption = None,
    rules: RulesOption = None,
    watermark: Annotated[
        str,
        Option(help="How far behind the latest event others may come, or carried (--marks)."),
    ] = "10 seconds",
    format_: Annotated[
        str | None,
        Option("--format", help="The source's files: parquet (else), json (lines) or csv."),
    ] = None,
    every: Annotated[
        str | None, Option(help="How often a micro-batch starts; 1 second without it.")
    ] = None,
    once: Annotated[bool, Option("--once", help="Stop when the source is empty.")] = False,
    files: Annotated[int | None, Option(help="Files of one micro-batch, at most.")] = None,
    master: Annotated[str | None, Option(help="The Spark cluster: local[*], spark://…")] = None,
    columns: Annotated[
        str | None,
        Option(help="The columns of files or Kafka's JSON: 'ts timestamp, type string'."),
    ] = None,
    bad: Annotated[
        str,
        Option(help="Records that are no events: side (a folder beside), drop or fail."),
    ] = "side",
    late: Annotated[
        str, Option(help="Events behind the watermark: drop, side (a folder) or correct.")
    ] = "drop",
    changes: ChangesOption = None,
    id_: IdOption = None,
    max_ahead: Annotated[
        str, Option(help="How far ahead of the clock the time of an event may be.")
    ] = "1 day",
    allowed_lateness: Annotated[
        str | None, Option(help="With --late correct: how far behind the watermark.")
    ] = None,
    idle: Annotated[
        str | None,
        Option(help="Let time go on when no event came for so long: '30 seconds'."),
    ] = None,
    marks: Annotated[
        bool, Option("--marks", help="Let the rows of a pipeline carry the watermark.")
    ] = False,
    latency: Annotated[
        str | None,
        Option(help="A goal, such as '2 seconds': micro-batches grow and shrink to hold it."),
    ] = None,
    hot_keys: Annotated[
        bool, Option("--hot-keys", help="Split keys with many events over all buckets.")
    ] = False,
    shed: Annotated[
        str | None,
        Option(help="What a micro-batch may take, '2 seconds', before events are dropped."),
    ] = None,
    buckets: Annotated[
        int | None,
        Option(help="Buckets for groups, 8 without it: as many as cores, before the first start."),
    ] = None,
    keys: Annotated[
        list[str] | None,
        Option(help="Keys of rules that may come: user or user,country; repeatable."),
    ] = None,
    packages: Annotated[
        str | None, Option(help="Packages of Spark that the source needs, such as Kafka's.")
    ] = None,
    restart_from: Annotated[
        str | None,
        Option(
            help="Start anew, beside the old checkpoint: with all events of the source (earliest), "
            "or with those from a time on: now, or '2026-01-31 13:30:00'."
        ),
    ] = None,
    backfill: Annotated[
        Path | None, Option(help="A store that has the events before --restart-from.")
    ] = None,
    values: Annotated[
        str | None, Option(help="How Kafka's values are coded: json (else), avro, protobuf.")
    ] = None,
    schema: Annotated[
        str | None, Option(help="A file with the schema of Avro, or Protobuf's descriptor.")
    ] = None,
    registry: Annotated[str | None, Option(help="The URL of a schema registry.")] = None,
    message: Annotated[str | None, Option(help="The name of Protobuf's message.")] = None,
    start: Annotated[
        str | None,
        Option(
            help="Where Kafka's topics are read from without a checkpoint: earliest (else), "
            "latest, a time, or topic:partition:offset,…"
        ),
    ] = None,
    rows: Annotated[
        int | None, Option(help="Messages of Kafka in one micro-batch, at most.")
    ] = None,
    keep: Annotated[
        str | None,
        Option(help="Parts of Kafka's messages that become columns: key,timestamp,headers."),
    ] = None,
    on_loss: Annotated[
        str | None,
        Option(help="fail (else) or skip, if messages are deleted before they are read."),
    ] = None,
    kafka: Annotated[
        list[str] | None,
        Option(help="A setting of the client of Kafka, security.protocol=SSL; repeatable."),
    ] = None,
    key: Annotated[
        str | None, Option(help="The columns that are the key of a message to Kafka.")
    ] = None,
    dead_letters: Annotated[
        Path | None,
        Option(help="The folder for what a webhook does not take; in the checkpoint else."),
    ] = None,
    alerts: Annotated[
        str | None, Option(help="With --rules: alerts as lines of JSON, ecs (Elastic) or ocsf.")
    ] = None,
    metrics: Annotated[
        int | None,
        Option(help="Show the numbers of the query at http://127.0.0.1:PORT/metrics."),
    ] = None,
    time: TimeOption = "ts",
    type_: TypeOption = "type",
    time_unit: UnitOption = "us",
    time_format: FormatOption = None,
) -> None:
    """Run a query, or all rules of a folder, over a live stream; both go on from a checkpoint."""
    with ExitStack() as stack:
        # Spark takes a second to load, and mistakes in a query do not need it.

        def read_ready() -> Ready:
            assert place is not None, "rules are given"
            known = EventColumns(time, type_, time_unit, time_format)
            return ready_rules(place, known, logs=logs)

        logs: Logs | None = None
        of_logs: dict[str, str] = {}
        if rules is not None:
            refuse_options("--rules takes the place of a query", query=text)
            of_logs = sources_of_logs(sources)
            logs = None if set(of_logs) == {UNNAMED} else Logs(of_logs, apart=False)
        place = find_rules(rules, file) if rules is not None else None
        stack.enter_context(opened(place, master, packages))
        first = read_ready() if place is not None else None
        if first is not None and not first.queries:
            Refusals(first)
        written, name = given_text(file, text) if first is None else ("", "")
        compiled = (
            compile_text(written, name, time, type_, None, time_unit, time_format)
            if first is None
            else None
        )
        from cepheid.spark.installed import check_installed

        check_installed("pyspark", "pandas")
        from cepheid.interfaces.run_command import named_inputs
        from cepheid.interfaces.stream_command import stream_query, wrong_use
        from cepheid.interfaces.stream_options import Options
        from cepheid.interfaces.stream_rules import Source, stream_rules

        source: str | dict[str, str]
        if compiled is not None:
            source = named_inputs(compiled, sources)
        else:
            source = sources[0] if logs is None else of_logs
        if isinstance(source, str) and len(sources) > 1:
            wrong = "--source may be given only once, except for a JOIN of two streams, and for "
            wrong += "rules of logs that have names, as sysmon=folder"
            raise WrongUseError(wrong)
        planned = compiled if first is None else first.workload
        assert planned is not None, "one of them is given"
        options = Options(
            source, sink, checkpoint, watermark, format_, every, once=once, files=files,
            master=master, restart_from=restart_from, backfill=backfill,
            columns=columns, packages=packages, times=planned.times, values=values, schema=schema,
            registry=registry, late=late, bad=bad, max_ahead=max_ahead, idle=idle,
            lateness=allowed_lateness, message=message, start=start, rows=rows, keep=keep,
            on_loss=on_loss,
            kafka=tuple(kafka or ()), key=key, dead_letters=dead_letters, metrics=metrics,
            buckets=buckets, keys=tuple(keys or ()), changes=given_changes(changes, id_),
            alerts=alerts, time_unit=time_unit, marks=marks, hot_keys=hot_keys, latency=latency,
            shed=shed,
        )  # fmt: skip
        if wrong := wrong_use(compiled, options):
            raise WrongUseError(wrong)
        if place is not None:
            look_s = place.look_s if isinstance(place, RuleTable) else 0.0
            stream_rules(Source(read_ready, lambda: stamp_of(place), look_s), options, complain)
            return
        assert compiled is not None
        try:
            stream_query(compiled, options)
        except CepheidError as error:
            error.file = name
            raise


def sources_of_logs(sources: list[str]) -> dict[str, str]:
    """Read the sources of rules by the names of their logs.

    Raises
    ------
    WrongUseError
        If a log has two of them.
    """
    found = inputs_of(sources, [])
    for log, places in found.items():
        if log and len(places) > 1:
            message = f"a live log has one --source, and `{log}` has {len(places)}"
            raise WrongUseError(message)
    return {log: places[0] for log, places in found.items()}
