"""The numbers of running queries, as Prometheus reads them."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.interfaces.test_stream_command import QUERY, two_files

from cepheid import metrics, workload
from cepheid.options import OptionError
from cepheid.runtimes.spark.query_numbers import QueryNumbers

pytestmark = pytest.mark.timeout(300)


def progress(events: int, **more: Any) -> Any:
    counts = Row(events=events, late=1, state_bytes=50, lag_ms=1500, buffered=None)
    return SimpleNamespace(
        id="7", name=more.get("name"), durationMs={"triggerExecution": 250},
        observedMetrics={"cepheid": counts, "cepheid_records": Row(records=9, bad=2), "x": None},
        stateOperators=[
            SimpleNamespace(operatorName="symmetricHashJoin", numRowsDroppedByWatermark=events),
            SimpleNamespace(operatorName="applyInPandasWithState", numRowsDroppedByWatermark=50),
        ],
        sources=[SimpleNamespace(latestOffset='{"t": {"0": 12}}', endOffset='{"t": {"0": 2}}')],
    )  # fmt: skip


def test_numbers_are_added_up_until_a_query_ends() -> None:
    numbers = QueryNumbers()
    numbers.onQueryStarted(SimpleNamespace(id="7", name='a "b"'))
    for events in (3, 4):
        numbers.onQueryProgress(SimpleNamespace(progress=progress(events)))
    text = numbers.text()
    assert text.endswith("# EOF\n")
    label = r'{query="a \"b\""}'
    for line in (
        f"cepheid_events_total{label} 7", f"cepheid_late_total{label} 9",
        f"cepheid_bad_total{label} 4", f"cepheid_records_total{label} 18",
        f"cepheid_lag_seconds{label} 1.5", f"cepheid_state_bytes{label} 50",
        f"cepheid_source_behind{label} 10", f"cepheid_micro_batch_seconds_count{label} 2",
        f"cepheid_micro_batch_seconds_sum{label} 0.500",
    ):  # fmt: skip
        assert line in text.splitlines()
    numbers.onQueryTerminated(SimpleNamespace(id="7"))
    assert "query=" not in numbers.text()


@pytest.mark.spark
def test_a_running_workload_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    folder = two_files(tmp_path / "events")
    reader = spark.readStream.schema(spark.read.parquet(str(folder)).schema)
    rules = workload({"one": QUERY, "two": QUERY.replace("A+", "A")})
    rows: DataFrame = rules.stream(reader.parquet(str(folder)), watermark="1 second")
    with metrics.serve(spark, 0) as served:
        written = threading.Event()
        write = served.counted(lambda _batch, _number: written.set())
        writer = rows.writeStream.queryName("rules").foreachBatch(write)
        live = writer.option("checkpointLocation", str(tmp_path / "state")).start()
        try:
            assert written.wait(120)
            url = f"http://127.0.0.1:{served.port}"
            wanted = (
                'cepheid_rows_total{query="rules",rule="two"} 1',
                'events_total{query="rules"} 4',
            )
            text = ""
            for _ in range(600):
                with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
                    text = answer.read().decode()
                    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                if all(one in text for one in wanted):
                    break
                time.sleep(0.1)
            assert all(one in text for one in wanted), text
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{url}/other", timeout=10)
            with pytest.raises(OptionError, match="cannot be used"):
                metrics.serve(spark, served.port)
        finally:
            live.stop()
    with pytest.raises(OptionError):
        metrics.serve(spark, 70_000)
