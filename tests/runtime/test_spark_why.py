"""``why_not`` of a DataFrame says what it says of the same events in process."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.amount import some
from tests.why.test_why_kinds import DRIVE
from tests.why.test_why_trends import EVENTS, FUNNEL

import cepheid
from cepheid.errors import UnsupportedError

pytestmark = pytest.mark.spark


def test_a_frame_gives_the_answer_of_a_table(spark: SparkSession) -> None:
    frame = spark.createDataFrame(EVENTS)
    texts = (
        f"{FUNNEL} WITHIN 30 minutes",
        "RETURN COUNT(*) PATTERN SEQ(a, B) WHERE [session]",
        "RETURN session, COUNT(*) PATTERN SEQ(A, B) GROUP-BY session HAVING COUNT(*) > 5",
    )
    for text in some(texts, 2):
        q = cepheid.query(text)
        assert str(q.why_not(frame)) == str(q.why_not(EVENTS)), text


@pytest.mark.slow
def test_situations_and_selects_are_counted_on_spark(spark: SparkSession) -> None:
    drive = spark.createDataFrame(DRIVE)
    for text in (
        "FROM s DEFINE F AS speed > 70 AT LEAST 15 us, W AS jerk > 5 PATTERN W before F",
        "SELECT * FROM s WHERE speed > 95 AND jerk > 5",
    ):
        q = cepheid.query(text)
        assert str(q.why_not(drive)) == str(q.why_not(DRIVE)), text
    orders = pa.table({"ts": [0, 100], "k": ["x", "y"]})
    paid = pa.table({"ts": [50, 500], "k": ["x", "z"]})
    q = cepheid.query("SELECT o.k AS k FROM o JOIN p ON o.k = p.k WINDOW 10 us")
    frames = {"o": spark.createDataFrame(orders), "p": spark.createDataFrame(paid)}
    assert str(q.why_not(frames)) == str(q.why_not({"o": orders, "p": paid}))


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UnsupportedError, match="E405"):
        cepheid.query("RETURN COUNT(*) PATTERN A", time="timestamp").why_not(stream)
