"""Spark Connect: a client in another process, and a server whose tasks run on the cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.driver import Driver
from tests.cluster.parts import need
from tests.cluster.standalone import Cluster
from tests.cluster.test_cluster import write_whole
from tests.servers import free_port

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.xdist_group("servers")]


def test_every_strategy_and_live_queries_over_spark_connect(
    cluster: Cluster, tmp_path: Path
) -> None:
    need("grpc")
    port = free_port()
    settings = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    with Driver(cluster, tmp_path / "server", "serve", settings=settings) as server:
        cluster.wait_until(lambda: server.asked() > 0 or not server.running)
        remote = f"sc://127.0.0.1:{port}"
        with Driver(cluster, tmp_path / "client", "once", remote=remote) as client:
            found = client.found()
        write_whole(tmp_path / "server" / "enough", "0")
        served = server.found()
    assert (found.get("wrong"), found.get("wrong live")) == ([], []), found
    assert served["tasks"] > 0, "they ran on executors of the cluster"
