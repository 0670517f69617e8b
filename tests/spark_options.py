"""Settings of the Spark sessions that tests start."""

from __future__ import annotations

from tests.jvm import FLAGS

from cepheid.spark.session import LOG_SETTINGS, SETTINGS
from cepheid.spark.versions import LOCAL_CHECKPOINTS


def options() -> dict[str, str]:
    """Return settings for small queries on two cores."""
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.cepheid.buckets": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        # Small queries: compiling them takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": f"{FLAGS} "
        "-Djdk.lang.Process.launchMechanism=VFORK "
        f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.python.daemon.module": "tests.spark_daemon",
        # Otherwise Spark starts 200 processes for a live query of three micro-batches.
        LOCAL_CHECKPOINTS[0]: LOCAL_CHECKPOINTS[1],
        **SETTINGS,
    }
