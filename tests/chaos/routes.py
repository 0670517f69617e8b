"""Where records come from and rows go to: files to files, Kafka to Kafka, Kafka to PostgreSQL."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet
from tests.chaos.driver import Asked
from tests.chaos.records import BATCH, Record
from tests.servers import Broker, Postgres

ROUTES = ("files to files", "Kafka to Kafka", "Kafka to PostgreSQL")
PARTITIONS = 2


class Route:
    """The places of a round; its name tells them from those of other rounds."""

    def __init__(
        self, name: str, route: str, folder: Path, broker: Broker | None, postgres: Postgres | None
    ) -> None:
        self.name, self.route, self.folder = name, route, folder
        self.broker, self.postgres = broker, postgres

    def asked(self, kinds: Sequence[str]) -> Asked:
        """Name the source, and a sink for every kind."""
        if self.broker is None:
            sinks = {kind: str(self.folder / "rows" / kind) for kind in kinds}
            return Asked(str(self.folder / "events"), sinks, 1, None)
        servers = f"kafka://{self.broker.servers}"
        if self.postgres is None:
            sinks = {kind: f"{servers}/{self.name}-{kind}" for kind in kinds}
        else:
            sinks = {kind: f"{self.postgres.url}/{self._table(kind)}" for kind in kinds}
        return Asked(f"{servers}/{self.name}", sinks, None, BATCH)

    def fill(self, records: Sequence[Record]) -> None:
        """Send all records."""
        if self.broker is None:
            self._fill_files(records)
        else:
            self._fill_topic(self.broker, records)

    def _fill_files(self, records: Sequence[Record]) -> None:
        folder = self.folder / "events"
        folder.mkdir(parents=True)
        for number, begin in enumerate(range(0, len(records), BATCH)):
            path = folder / f"{number:04}.json"
            path.write_text("".join(f"{one.text}\n" for one in records[begin : begin + BATCH]))
            os.utime(path, (1000 + number, 1000 + number))

    def _fill_topic(self, broker: Broker, records: Sequence[Record]) -> None:
        """Write committed transactions; there are others between them, which are aborted."""
        broker.create(self.name, PARTITIONS)
        for begin in range(0, len(records), 10 * BATCH):
            for partition in range(PARTITIONS):
                part = records[begin + partition : begin + 10 * BATCH : PARTITIONS]
                texts = [one.text for one in part]
                more: Any = {"transaction": f"{self.name}-{partition}", "partition": partition}
                broker.produce(self.name, texts, **more)
                broker.produce(self.name, texts[:3], commit=False, **more)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Read what the sink of a kind holds."""
        if self.postgres is not None:
            return self._table_rows(self.postgres, self._table(kind))
        if self.broker is not None:
            return self._messages(self.broker, f"{self.name}-{kind}")
        return committed_rows(self.folder / "rows" / kind)

    def side(self, kind: str, part: str) -> list[dict[str, Any]]:
        """Read the late events or the bad records of a kind."""
        if self.broker is not None and self.postgres is None:
            return self._messages(self.broker, f"{self.name}-{kind}-{part}")
        inside = self.folder / ("rows" if self.broker is None else "state")
        files = sorted((inside / f"{kind}-{part}").glob("batch=*/*.parquet"))
        return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]

    def _table(self, kind: str) -> str:
        return f"{self.name}_{kind}".replace("-", "_")

    @staticmethod
    def _table_rows(postgres: Postgres, table: str) -> list[dict[str, Any]]:
        import psycopg

        with psycopg.connect(postgres.url) as connection:
            cursor = connection.execute(f'SELECT * FROM "{table}"')
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @staticmethod
    def _messages(broker: Broker, topic: str) -> list[dict[str, Any]]:
        if topic not in broker.client().list_topics(timeout=30).topics:
            return []
        return [json.loads(message.value()) for message in broker.consume(topic)]


def committed_rows(folder: Path) -> list[dict[str, Any]]:
    """Read the files that the log of Spark's file sink names, as readers of Spark do."""
    found: dict[str, None] = {}
    logs = [path for path in (folder / "_spark_metadata").iterdir() if path.name[0] != "."]
    for log in sorted(logs, key=lambda path: int(path.name.removesuffix(".compact"))):
        if log.suffix == ".compact":
            found.clear()
        for line in log.read_text().splitlines()[1:]:
            found[json.loads(line)["path"].removeprefix("file://")] = None
    return [row for path in found for row in parquet.read_table(path).to_pylist()]
