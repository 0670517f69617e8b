"""Named inputs: rules in, what each of them reads out; rules of several logs read one stream.

A rule names its log after FROM, as rules of Sigma do by their log source. The events of several
logs stand in one stream, with the name of their log in a column, and a rule takes its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.expressions import tree as expressions
from cepheid.expressions.format import format_literal, format_name
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.kinds.pipeline.bind import streams_read
from cepheid.language import tree
from cepheid.language.formatter import format_query
from cepheid.language.parser import parse

COLUMN = "cepheid_log"
"""The column with the name of an event's log, where logs stand together."""

UNNAMED = ""
"""The log of inputs without a name: what rules of any other log read."""

_STREAM = "cepheid_logs"
_INPUT = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
_KAFKA = "kafka://"

Inputs = Mapping[str, tuple[str, ...]]
"""The places of the events of each log."""


class Reading(NamedTuple):
    """The logs that a rule reads, and its query over them."""

    logs: tuple[str, ...]
    query: str


def inputs_of(inputs: Sequence[str], folders: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read ``--input`` and ``--logs``: places of events by the names of their logs.

    Raises
    ------
    WrongUseError
        If there is none.

    Examples
    --------
    >>> inputs_of(["proxy=logs/proxy.csv", "logs/old/*.json"], ["kafka://host:9092/dns,ssh"])
    {'proxy': ('logs/proxy.csv',), '': ('logs/old/*.json',), 'dns': ('kafka://host:9092/dns',), \
'ssh': ('kafka://host:9092/ssh',)}
    """
    found: dict[str, list[str]] = {}
    for text in inputs:
        named = _INPUT.fullmatch(text)
        # A folder may be called date=2026-01-31, as Hive does.
        name, place = named.groups() if named and not Path(text).exists() else (UNNAMED, text)
        found.setdefault(name, []).append(place)
    for folder in folders:
        for name, place in _logs_in(folder):
            found.setdefault(name, []).append(place)
    if not found:
        message = "name the events: --input events/, --input sysmon=events/sysmon, or --logs events"
        raise WrongUseError(message)
    return {name: tuple(places) for name, places in found.items()}


def _logs_in(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the logs of a folder, one for each file or folder in it, or of a list of topics."""
    if folder.startswith(_KAFKA):
        servers, _, topics = folder.removeprefix(_KAFKA).partition("/")
        for topic in filter(None, topics.split(",")):
            yield _name(topic), f"{_KAFKA}{servers}/{topic}"
        return
    path = Path(folder)
    if not path.is_dir():
        message = f"--logs names a folder of logs, or kafka://host:9092/topic,topic: not {folder}"
        raise WrongUseError(message)
    for one in sorted(path.iterdir()):
        if one.name[0] not in "._":
            yield _name(one.stem if one.is_file() else one.name), str(one)


def _name(text: str) -> str:
    """Write the name of a folder or topic as a query writes that of a log."""
    name = re.sub(r"\W+", "_", text)
    return f"_{name}" if name[:1].isdigit() else name


class Logs:
    """What rules read of named logs.

    Parameters
    ----------
    names
        The names of the logs; :data:`UNNAMED` for inputs without one.
    apart
        Whether a rule of one log is given its events alone, with its query as it is.
    """

    def __init__(self, names: Iterable[str], *, apart: bool) -> None:
        self._names, self._apart = tuple(names), apart

    def reading(self, text: str) -> Reading:
        r"""Find the logs that a query reads, and write it for a stream of all of them.

        Raises
        ------
        CepheidError
            If the text is no query; E538 if it reads a log that has no input.

        Examples
        --------
        >>> Logs(["dns", "ssh"], apart=False).reading("SELECT host FROM dns WHERE size > 9").query
        "SELECT host\nFROM cepheid_logs dns\nWHERE cepheid_log = 'dns' AND size > 9"
        """
        query = parse(text)
        stages = _stages(query)
        derived = {stage.name.text for stage in stages if stage.name is not None}
        read: dict[str, str] = {}
        whole = False
        for stage in stages:
            names = list(streams_read(stage.query))
            whole = whole or not names
            for name in names:
                if name.text not in derived:
                    read[name.text] = self._log_of(name, text)
        logs = tuple(dict.fromkeys(self._names if whole and not read else read.values()))
        if not read or (self._apart and len(logs) == 1):
            return Reading(logs, text)
        return Reading(logs, _together(query, stages, read))

    def _log_of(self, name: tree.Name, text: str) -> str:
        if name.text in self._names:
            return name.text
        if UNNAMED in self._names:
            return UNNAMED
        message = f"no input has the log `{name.text}`"
        helps = [f"name its events: `--input {name.text}=events/`"]
        if other := suggest_names(name.text, self._names, owner="the command line"):
            helps.insert(0, other)
        raise DataError([Diagnostic("E538", message, name.span, helps=tuple(helps))], text)


def _stages(query: tree.Query) -> tuple[tree.StageQuery, ...]:
    if isinstance(query, tree.PipelineQuery):
        return query.stages
    return (tree.StageQuery(query=query, span=query.span),)


def _together(query: tree.Query, stages: Sequence[tree.StageQuery], read: Mapping[str, str]) -> str:
    """Write a query over one stream: of each log it takes the events that have its name."""
    written: list[tree.StageQuery] = []
    streams: dict[str, str] = {}
    for stage in stages:
        named = [name.text for name in streams_read(stage.query) if name.text in read]
        if not named:
            written.append(stage)
        elif isinstance(stage.query, tree.SelectQuery) and len(stage.query.streams) == 1:
            own = _restricted(stage.query, read[named[0]])
            written.append(msgspec.structs.replace(stage, query=own))
        else:
            streams |= {name: read[name] for name in named}
            written.append(stage)
    before = [
        f"CREATE STREAM {format_name(name)} AS SELECT * FROM {_STREAM} "
        f"WHERE {COLUMN} = {format_literal(log)};"
        for name, log in streams.items()
    ]
    if isinstance(query, tree.PipelineQuery):
        after: tree.Query = msgspec.structs.replace(query, stages=tuple(written))
    else:
        after = written[0].query
    return "\n".join([*before, format_query(after)])


def _restricted(query: tree.SelectQuery, log: str) -> tree.SelectQuery:
    """Let a query take the events of one log from the stream of all."""
    (stream,) = query.streams
    whole = msgspec.structs.replace(stream, name=msgspec.structs.replace(stream.name, text=_STREAM))
    span = stream.span
    own: Any = expressions.Binary(
        operator="=",
        left=expressions.Word(text=COLUMN, span=span),
        right=expressions.Literal(value=log, span=span),
        span=span,
    )
    if query.where is not None:
        parts = (own, query.where)
        own = expressions.Logical(operator="AND", operands=parts, span=query.where.span)
    return msgspec.structs.replace(query, streams=(whole,), where=own)
