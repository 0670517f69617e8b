"""The options of ``cepheid stream``: where events come from, where rows go, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from cepheid.events.time_formats import TextTimes
from cepheid.options import LiveOptions

FILE_FORMATS = ("parquet", "json", "csv")
RATE = "rate:"
KAFKA = "kafka://"
POSTGRES = ("postgres://", "postgresql://")
WEBHOOK = "webhook:"
STANDARD_OUTPUT = "-"
HOT_KEYS = "hot-keys"
"""The folder of a checkpoint in which keys that are split are noted."""
SHED = "shed"
"""That in which it is noted what is dropped."""
EVERY = "1 second"
"""The interval between micro-batches."""


class Options(msgspec.Struct, frozen=True):
    """The source and the sink of a live query, and its settings.

    For a join of two streams, the source is a dict of sources by name. ``alerts`` is the schema of
    the alerts of rules, ``ecs`` or ``ocsf``; without it they are rows.
    """

    source: str | dict[str, str]
    sink: str
    checkpoint: Path
    watermark: str
    format: str | None = None
    every: str | None = None
    once: bool = False
    files: int | None = None
    master: str | None = None
    columns: str | None = None
    packages: str | None = None
    restart_from: str | None = None
    backfill: Path | None = None
    times: TextTimes | None = None
    values: str | None = None
    schema: str | None = None
    registry: str | None = None
    message: str | None = None
    start: str | None = None
    rows: int | None = None
    keep: str | None = None
    on_loss: str | None = None
    kafka: tuple[str, ...] = ()
    key: str | None = None
    dead_letters: Path | None = None
    metrics: int | None = None
    late: str = "drop"
    bad: str = "side"
    max_ahead: str = "1 day"
    idle: str | None = None
    lateness: str | None = None
    buckets: int | None = None
    keys: tuple[str, ...] = ()
    changes: dict[str, Any] | None = None
    alerts: str | None = None
    time_unit: str = "us"
    marks: bool = False
    hot_keys: bool = False
    latency: str | None = None
    shed: str | None = None

    @property
    def live(self) -> LiveOptions:
        """Return the options of the query itself, whose parts leave together."""
        given = (self.watermark, self.late, self.bad, self.max_ahead, self.idle, self.lateness)
        hot_keys = self.notes_of(HOT_KEYS) if self.hot_keys else None
        more = (self.changes, self.marks, True, hot_keys)
        notes = None if self.shed is None else self.notes_of(SHED)
        return LiveOptions(*given, *more, self.shed, notes)

    def notes_of(self, name: str) -> str:
        """Return the folder of a checkpoint in which hot keys, or levels of shedding, are noted."""
        return str(self.checkpoint.absolute() / name)

    @property
    def sources(self) -> list[str]:
        """List all sources."""
        return [self.source] if isinstance(self.source, str) else [*self.source.values()]

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of the client of Kafka."""
        return dict(one.split("=", 1) for one in self.kafka)


def kafka_place(source: str) -> tuple[str, str]:
    """Parse the servers and the topics of ``kafka://host:port,.../topic``, empty if missing."""
    servers, _, topic = source.removeprefix(KAFKA).partition("/")
    return servers, topic
