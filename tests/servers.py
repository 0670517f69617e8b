"""Servers that tests start for themselves: a broker of Kafka, and PostgreSQL.

Each listens on a free port of 127.0.0.1 and writes to a temporary folder. Where a machine lacks
what they need, the tests that need them are left out with one line; on CI they fail instead.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.jvm import FLAGS

ROOT = Path(__file__).parents[1]
JARS = ROOT / "build" / "kafka"
START_S = 60
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"

SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
group.initial.rebalance.delay.ms=0
log.dirs={folder}/log
"""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def leave_out(reason: str) -> None:
    """Skip a test where a server or browser is missing; `.ci/run` installs all, so CI fails."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"CI leaves nothing out: {reason}")
    # A developer's machine may lack a server; its output names what was left out.
    pytest.skip(reason)


class Broker:
    """One node of Kafka that is its own controller."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(
            SETTINGS.format(port=self.port, control=free_port(), folder=folder)
        )
        self._run(
            "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings)
        ).wait(START_S)
        self.start()

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        self._process = self._run("kafka.Kafka", str(self._settings))
        wait_for(self.port, self._process, self.folder / "broker.txt")

    def stop(self, *, kill: bool = False) -> None:
        """Stop the broker; its topics stay."""
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(START_S)

    def _run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        java = ["java", "-Xmx384m", *FLAGS.split()]
        command = [*java, "-cp", f"{JARS}/*", name, *words]
        with (self.folder / "broker.txt").open("ab") as said:
            return subprocess.Popen(command, stdout=said, stderr=said)

    def client(self) -> Any:
        """Return a client that creates topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        """Create a topic; return its name."""
        from confluent_kafka.admin import NewTopic

        new = NewTopic(topic, partitions, 1, config=settings)
        client = self.client()
        client.create_topics([new])[topic].result(30)
        return topic

    def produce(
        self,
        topic: str,
        values: list[Any],
        *,
        transaction: str = "",
        commit: bool = True,
        **more: Any,
    ) -> None:
        """Write values to a topic: all of them, or none if a transaction does not commit."""
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.servers, "linger.ms": 0}
        if transaction:
            settings["transactional.id"] = transaction
        producer = Producer(settings)
        if transaction:
            producer.init_transactions(30)
            producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, **more)
        assert producer.flush(30) == 0
        if transaction:
            (producer.commit_transaction if commit else producer.abort_transaction)(30)

    def consume(self, topic: str) -> list[Any]:
        """Return all committed messages of a topic, in the order of each partition."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        settings = {"bootstrap.servers": self.servers, "group.id": "tests"}
        settings |= {"isolation.level": "read_committed", "enable.partition.eof": "true"}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        parts = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, part, 0) for part in parts])
        found: list[Any] = []
        ended: set[int] = set()
        while len(ended) < len(parts):
            message = consumer.poll(30)
            assert message is not None, "the broker answers"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        consumer.close()
        return found


def start_broker(folder: Path) -> Broker:
    """Start a broker, or leave the test out and say why."""
    if not (JARS / ".fetched").exists():
        leave_out("no broker of Kafka: `make kafka` fetches it, and needs Maven")
    if importlib.util.find_spec("confluent_kafka") is None:
        leave_out("no client of Kafka: `make dev` installs it")
    return Broker(folder)


def wait_for(port: int, process: subprocess.Popen[bytes], said: Path) -> None:
    """Wait until a server listens."""
    for _ in range(START_S * 20):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail(f"the server did not start: {said.read_text()[-2000:]}")


def postgres_programs() -> Path | None:
    """Find the programs of PostgreSQL; Debian keeps them off the search path."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return places[-1].parent if places else None


class Postgres:
    """A server of PostgreSQL with an empty database, of a user who is not root."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.port, self._programs = folder, free_port(), programs
        self._user = _user()
        folder.mkdir(exist_ok=True)
        if self._user is not None:
            os.chown(folder, *self._user)
            folder.chmod(0o700)
        data = str(folder / "data")
        self._run("initdb", "-D", data, "-U", "cepheid", "-A", "trust", "--no-sync").wait(START_S)
        self.start()

    @property
    def url(self) -> str:
        """Return the address of the database."""
        return f"postgres://cepheid@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        words = ("-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder))
        quick = ("-h", "127.0.0.1", "-c", "fsync=off")
        self._process = self._run("postgres", *words, *quick)
        wait_for(self.port, self._process, self.folder / "said.txt")

    def stop(self) -> None:
        """Stop the server at once; its tables stay."""
        self._process.send_signal(2)
        self._process.wait(START_S)

    def _run(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(self._programs / name), *words]
        user, group = self._user or (None, None)
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(
                command, stdout=said, stderr=said, cwd=self.folder, user=user, group=group
            )


def _user() -> tuple[int, int] | None:
    """Return the user and group to be, if this is root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    return None


def start_postgres(folder: Path) -> Postgres:
    """Start PostgreSQL, or leave the test out and say why."""
    programs = postgres_programs()
    if programs is None:
        leave_out("no PostgreSQL: install the package postgresql")
    if importlib.util.find_spec("psycopg") is None:
        leave_out("no client of PostgreSQL: `make dev` installs it")
    assert programs is not None
    return Postgres(folder, programs)
