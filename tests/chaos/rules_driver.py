"""A driver to be killed: ``python -m tests.chaos.rules_driver FOLDER``; it waits for ``go``.

It runs the rules of FOLDER/rules over the events of FOLDER/events until it is killed or, when the
file ``last`` is there, until it has read all of them. It writes the file ``done`` at the end.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from tests.chaos.driver import DONE, GO, TRIES
from tests.spark_options import options as spark_options

from cepheid.interfaces.rule_queries import EventColumns, ready_rules
from cepheid.interfaces.rules import stamp_of
from cepheid.interfaces.stream_options import Options
from cepheid.interfaces.stream_rules import Rulebook, Source, stream_rules_in
from cepheid.runtimes import rules_log, rules_read
from cepheid.spark.failures import FAILURES, clear_error
from cepheid.spark.session import keep_checkpoints_local

LAST = "last"
REMOVED = "removed"
"""The files of the rules log that were compacted; the check reads them."""
WATERMARK = "1 second"


def complain(text: str) -> None:
    """Write what users see on standard error."""
    sys.stderr.write(f"{text}\n")


def compact_often(folder: Path) -> None:
    """Compact the rules log at every third change, up to what may be repeated now.

    Spark keeps all offsets here, so that the check can read them.
    """

    def newest(checkpoint: Path) -> int | None:
        commits = (checkpoint / "commits").glob("*")
        return max((int(path.name) for path in commits if path.name.isdigit()), default=None)

    def put_aside(file: Path) -> None:
        file.replace(folder / REMOVED / file.name)

    (folder / REMOVED).mkdir(exist_ok=True)
    rules_read.oldest_kept = newest
    rules_log.FILES_MAX = 3
    rules_log.remove = put_aside


def main(place: str) -> None:
    """Run the rules."""
    folder = Path(place)
    compact_often(folder)
    builder = SparkSession.builder.master(f"local[2,{TRIES}]")
    for key, value in spark_options().items():
        builder = builder.config(key, value)
    # The check reads all offsets.
    spark = builder.config("spark.sql.streaming.minBatchesToRetain", "100000").getOrCreate()
    keep_checkpoints_local(spark, place)
    while not (folder / GO).exists():
        time.sleep(0.02)
    rules, once = folder / "rules", (folder / LAST).exists()
    source = Source(lambda: ready_rules(rules, EventColumns()), lambda: stamp_of(rules))
    times = source.read().workload.times
    paths = (str(folder / "events"), str(folder / "rows"), folder / "state")
    every = None if once else "0 seconds"
    options = Options(*paths, WATERMARK, every=every, once=once, times=times, files=3)
    try:
        stream_rules_in(spark, Rulebook(source, complain), options, complain)
    except FAILURES as error:
        sys.exit(f"the rules failed: {clear_error(error)}")
    (folder / DONE).touch()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
