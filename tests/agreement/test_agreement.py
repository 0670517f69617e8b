"""Every way to run a query gives the same rows, or the same refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from tests.agreement.known import is_known
from tests.agreement.running import disagreements
from tests.agreement.spark_ways import spark_streams, spark_ways
from tests.agreement.values import (
    Trial,
    pattern_trials,
    row_pattern_trials,
    select_trials,
    situation_trials,
)
from tests.agreement.ways import WAYS, Way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)

KINDS: dict[str, st.SearchStrategy[Trial]] = {
    "patterns": pattern_trials(),
    "links": pattern_trials(linked=True),
    "situations": situation_trials(),
    "SELECT": select_trials(),
    "row patterns": row_pattern_trials(),
}


SPARK_EXAMPLES = max(settings().max_examples // 30, 2)
STREAM_EXAMPLES = max(settings().max_examples // 50, 2)
"""A query on Spark takes half a second, a live one several."""


QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A trial that fails is not made smaller on a stream, which takes longer than finding it."""


def check(trial: Trial, ways: Sequence[Way]) -> None:
    """Fail where ways differ, but for what is known."""
    assume(not is_known(trial))
    compare_ways(trial, ways)


def compare_ways(trial: Trial, ways: Sequence[Way]) -> None:
    """Fail where ways differ."""
    assert not (found := disagreements(trial, ways)), "\n\n".join(map(str, found[:2]))


COUNTS = """RETURN key, COUNT(*), COUNT(A), COUNT(B) PATTERN SEQ(A+, B) SEMANTICS next
WHERE A.x > 0 GROUP-BY key WITHIN 9 us SLIDE 3 us TIES arrival"""


def counted() -> Trial:
    """Return a trial with whole counts and a double one (§5.4), few of which are drawn."""
    columns = {"ts": range(8), "type": list("AABABAAB"), "key": list("ppqppqqq"), "x": [1] * 8}
    return Trial(
        "trends", COUNTS, {"s": pa.table(columns)}, {"ts": "int64 us"}, cuts=(3,), defined=COUNTS
    )


def test_counts_have_one_type_in_process() -> None:
    compare_ways(counted(), WAYS)


@pytest.mark.spark
def test_counts_have_one_type_on_spark(spark: SparkSession) -> None:
    compare_ways(counted(), [WAYS[0], *spark_ways(spark), *spark_streams(spark)])


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_ways_in_process_agree(kind: str, data: st.DataObject) -> None:
    check(data.draw(KINDS[kind]), WAYS)


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=SPARK_EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ways_on_spark_agree(spark: SparkSession, kind: str, data: st.DataObject) -> None:
    check(data.draw(KINDS[kind]), [WAYS[0], *spark_ways(spark)])


@pytest.mark.spark
@settings(max_examples=STREAM_EXAMPLES, phases=QUICK, suppress_health_check=list(HealthCheck))
@given(st.one_of(pattern_trials(), select_trials(), situation_trials()))
def test_live_queries_of_spark_agree(spark: SparkSession, trial: Trial) -> None:
    ways = spark_streams(spark)
    assume(any(way.takes_trial(trial) for way in ways))
    check(trial, [WAYS[0], *ways])


@pytest.mark.spark
def test_live_queries_of_spark_have_times_before_1678(spark: SparkSession) -> None:
    """Pandas has no such times, and in a zone its first one is hours away."""
    text = "RETURN MATCHES PATTERN SEQ(A, B) WITHIN 2 s SLIDE 2 s"
    first = -11_676_096_000_000_000
    times = pa.array(range(first, first + 4_000_000, 1_000_000), pa.timestamp("us"))
    trial = Trial(
        "matches", text, {"s": pa.table({"ts": times, "type": list("ABAB")})},
        {"ts": "timestamp[us]", "type": "string"}, cuts=(2,), defined=text, time_unit="us",
        step=1_000_000, span=4_000_000, zone="America/New_York",
    )  # fmt: skip
    compare_ways(trial, [WAYS[0], *spark_streams(spark)])
