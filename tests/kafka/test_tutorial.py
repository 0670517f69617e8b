"""The part of the tutorial on Kafka, run as it is written, with a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"


def blocks() -> list[str]:
    """Return the blocks of the part, in their order."""
    part = PAGE.read_text("utf-8").partition("## 9 Alerts on Kafka")[2].partition("\n## ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


def test_alerts_come_as_the_tutorial_says(broker: Broker, tmp_path: Path) -> None:
    send, query, stream, read, shown = (
        one.replace("localhost:9092", broker.servers) for one in blocks()
    )
    (tmp_path / "unpaid.cq").write_text(query, "utf-8")
    run = [sys.executable, "-c"]
    subprocess.run([*run, send], cwd=tmp_path, check=True)
    program = f'PATH="{Path(sys.executable).parent}:$PATH" {stream}'
    subprocess.run(["bash", "-c", program], cwd=tmp_path, check=True)
    done = subprocess.run([*run, read], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == shown
