"""Flink CEP over the events of a case, in a Java process of its own: arrays in, figures out.

CEPHEID_FLINK names the folder of Flink's jars, ``pyflink/lib`` of the package ``apache-flink``. The
pattern is in ``baselines/FlinkMatches.java`` and is compiled with ``javac``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from benchmarks.match_cases import EVENTS, KEYS, ticks
from benchmarks.measure import ROOT

FLINK_VARIABLE = "CEPHEID_FLINK"
SOURCE = ROOT / "benchmarks" / "baselines" / "FlinkMatches.java"
OPENS = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")


def measure(query: str, size: int, limit_s: int) -> dict[str, Any]:
    """Run a query over windows of ``size`` events of a key; figures are those of the process.

    Seconds are those of Flink's job alone, without the start of Java.
    """
    jars = os.environ.get(FLINK_VARIABLE)
    if not jars:
        return {"failed": f"{FLINK_VARIABLE} names no folder"}
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.csv"
        columns = ticks(EVENTS, KEYS, query)
        rows = zip(*(columns[name].tolist() for name in ("ts", "key", "price")), strict=True)
        events.write_text("".join(f"{ts},{key},{price}\n" for ts, key, price in rows), "utf-8")
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", folder, SOURCE], check=True)
        opens = [part for name in OPENS for part in ("--add-opens", name)]
        command = ["java", "-Xmx4g", *opens, "-cp", f"{folder}:{jars}/*", "FlinkMatches"]
        return _run([*command, query, str(size * KEYS), str(events)], limit_s)


def _run(command: list[str], limit_s: int) -> dict[str, Any]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None, "its output is read"
    clock = threading.Timer(limit_s, process.kill)
    clock.start()
    text = process.stdout.read().decode()
    # The time that the process used; ``Popen.wait`` would not tell. Its memory it tells itself.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    is_late = not clock.is_alive()
    clock.cancel()
    if process.returncode:
        return {"failed": f"more than {limit_s} s" if is_late else "out of memory, 4 GB"}
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found | {"cpu_s": used.ru_utime + used.ru_stime, "ok": True}
