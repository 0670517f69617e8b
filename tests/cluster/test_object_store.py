"""Tasks of a cluster read files of an object store by Arrow, and keep notes there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.driver import Driver
from tests.cluster.parts import object_store
from tests.cluster.standalone import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.xdist_group("servers")]


def test_files_and_notes_of_an_object_store(cluster: Cluster, tmp_path: Path) -> None:
    with object_store(tmp_path) as variables:
        settings = {f"spark.executorEnv.{name}": value for name, value in variables.items()}
        place = tmp_path / "job"
        with Driver(
            cluster, place, "object store", settings=settings, variables=variables
        ) as driver:
            found = driver.found()
    assert found.get("asked") == 3, found
    assert found["wrong"] == []
    assert found["levels"] == [[5, 2], [90, 4]]
    assert found["pace"] == [9_000, 0]
    assert found["hot"] == {"key 7": 50}
