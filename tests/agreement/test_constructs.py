"""Every way to run a query with a construct of other systems gives the rows of the oracle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from tests.agreement.constructs import CONSTRUCTS, construct_trials
from tests.agreement.spark_ways import spark_streams, spark_ways
from tests.agreement.test_agreement import SPARK_EXAMPLES, STREAM_EXAMPLES, check
from tests.agreement.values import Trial
from tests.agreement.ways import WAYS, compiled

from cepheid.errors import CepheidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(3600)

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Trials are small, and making one smaller takes longer than a thousand others."""
SHARE = 1 if "CEPHEID_EXAMPLES" in os.environ else 5
"""`make long` draws as many as it says; other runs have little time for each construct."""
EXAMPLES = max(settings().max_examples // SHARE, 6)


def is_planned(trial: Trial) -> bool:
    """Return whether a query has a meaning: one that is refused compares nothing."""
    try:
        compiled(trial).with_schema(trial.table.schema)
    except CepheidError:
        return False
    return True


@pytest.mark.parametrize("construct", CONSTRUCTS)
@settings(max_examples=EXAMPLES, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_ways_in_process_agree(construct: str, data: st.DataObject) -> None:
    trial = data.draw(construct_trials(construct))
    assume(is_planned(trial))
    check(trial, WAYS)


@pytest.mark.spark
@settings(max_examples=2 * SPARK_EXAMPLES, suppress_health_check=list(HealthCheck))
@given(trial=st.sampled_from(CONSTRUCTS).flatmap(construct_trials))
def test_ways_on_spark_agree(spark: SparkSession, trial: Trial) -> None:
    assume(is_planned(trial))
    check(trial, [WAYS[0], *spark_ways(spark)])


@pytest.mark.spark
@settings(max_examples=STREAM_EXAMPLES, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CONSTRUCTS).flatmap(construct_trials))
def test_live_queries_of_spark_agree(spark: SparkSession, trial: Trial) -> None:
    ways = spark_streams(spark)
    assume(is_planned(trial) and ways[0].takes_trial(trial))
    check(trial, [WAYS[0], *ways])
