"""``cepheid stream`` from a real broker of Kafka, where there is one; elsewhere one line says so.

KAFKA_HOME is a distribution of Kafka (3.7 or newer, with ``bin`` and ``libs``). KAFKA_JARS is a
folder with Spark's connector and what it needs: spark-sql-kafka-0-10, spark-token-provider-kafka,
kafka-clients and commons-pool2. Neither comes with PySpark.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interfaces.program import run

CONNECTOR = "spark-sql-kafka-0-10"
QUERY = "RETURN user, COUNT(*) PATTERN A+ GROUP-BY user WITHIN 4 s SLIDE 4 s"


def missing() -> str:
    """Return what there is not, or nothing."""
    home, jars = os.environ.get("KAFKA_HOME", ""), os.environ.get("KAFKA_JARS", "")
    if not (Path(home) / "bin" / "kafka-server-start.sh").exists():
        return "no broker: KAFKA_HOME names no distribution of Kafka"
    if not list(Path(jars).glob(f"{CONNECTOR}*.jar")):
        return f"no connector: KAFKA_JARS names no folder with {CONNECTOR}_2.13-*.jar"
    return ""


pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


def tool(name: str) -> str:
    return str(Path(os.environ["KAFKA_HOME"]) / "bin" / f"{name}.sh")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """Start a broker that is its own controller; yield its address."""
    client, control = free_port(), free_port()
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{control}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
log.dirs={tmp_path / "log"}
"""
    )
    storage = [tool("kafka-storage"), "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(settings)]
    subprocess.run(storage, check=True, capture_output=True)
    with (tmp_path / "broker.txt").open("wb") as said:
        process = subprocess.Popen([tool("kafka-server-start"), str(settings)], stdout=said)
        try:
            wait_for(client)
            yield f"127.0.0.1:{client}"
        finally:
            process.terminate()
            process.wait()


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the broker did not start")


def test_rows_of_a_topic(broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [3, 1, 5, 6]
    stamps = [f"1970-01-01T00:00:{second:02}Z" for second in seconds]
    values = [json.dumps({"ts": stamp, "type": "A", "user": "ann"}) for stamp in stamps]
    produce = [tool("kafka-console-producer"), "--bootstrap-server", broker, "--topic", "logins"]
    text = "".join(f"{value}\n" for value in values)
    subprocess.run(produce, input=text, text=True, check=True, capture_output=True)
    jars = ",".join(str(path) for path in Path(os.environ["KAFKA_JARS"]).glob("*.jar"))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--jars {jars} pyspark-shell")
    fields = ("--columns", "ts timestamp, type string, user string", "--once")
    places = ("--sink", "-", "--checkpoint", tmp_path / "state", "--watermark", "1 second")
    source = ("--source", f"kafka://{broker}/logins", "--master", "local[1]")
    done = run("stream", "-", *source, *fields, *places, stdin=QUERY, timeout=200)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [3.0]
