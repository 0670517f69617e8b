"""Settings of the Java machines that tests start: they run small queries, for minutes at most."""

from __future__ import annotations

FLAGS = " ".join(
    (
        # A quick compiler serves them better, and needs room for the code of hundreds of queries:
        # where it is full, Java throws code away and compiles it again.
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=256m",
        "-XX:+UseSerialGC",
        # Spark's classes are what they were; checking them takes a twelfth of the time.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
    )
)
