"""The reference has every command, option, function, setting, metric and format of the source."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.docs.reference_pages import commands_page, functions_page
from tests.docs.timelines import DRAWINGS, draw

from cepheid.jobs.bucket import BUCKET_VERSION
from cepheid.runtimes.spark.query_numbers import COUNTERS, GAUGES

ROOT = Path(__file__).parents[2]
SOURCE = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "src/cepheid").rglob("*.py")))
PAGES = {"commands.md": commands_page, "function-list.md": functions_page}


@pytest.mark.parametrize(("name", "write"), PAGES.items(), ids=PAGES)
def test_pages_that_are_made_are_those_of_the_source(
    name: str, write: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    page = ROOT / "docs" / name
    if request.config.getoption("--update-golden"):
        page.write_text(write(), "utf-8")
    assert page.read_text("utf-8") == write(), "write it anew: --update-golden"


def rows_of(name: str, heading: str) -> set[str]:
    """Return the names in the first column of the tables below a heading."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    part = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    cells = [line.split("|")[1] for line in part.splitlines() if line.startswith("| ")]
    return set(re.findall(r"`([^`]+)`", " ".join(cells)))


def test_every_environment_variable_is_in_the_reference() -> None:
    found = set(re.findall(r"\bCEPHEID_[A-Z_]+", SOURCE))
    assert found <= rows_of("configuration.md", "Environment variables")


def test_every_setting_of_spark_is_in_the_reference() -> None:
    found = set(re.findall(r'"(spark(?:\.\w+)+)"', SOURCE))
    listed = rows_of("configuration.md", "Settings of Spark")
    assert found - listed == set()


def test_every_metric_is_in_the_reference() -> None:
    counters = {*COUNTERS, "rows", "suppressed", "refused"}
    found = {f"cepheid_{name}_total" for name in counters}
    found |= {f"cepheid_{name}" for name in (*GAUGES, "micro_batch_seconds")}
    assert rows_of("monitor.md", "Metrics") == found


def test_every_format_of_a_state_is_in_the_reference() -> None:
    found = re.findall(r'\bFormat\("(\w+)", (\d+)', SOURCE)
    text = (ROOT / "docs/formats.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| (\d+) \|[^|]*\|$", text, re.MULTILINE)
    assert sorted(listed) == sorted({*found, ("bucket", str(BUCKET_VERSION))})


@pytest.mark.parametrize("name", DRAWINGS)
def test_timelines_show_the_matches_of_the_engine(
    name: str, request: pytest.FixtureRequest
) -> None:
    picture = ROOT / f"docs/img/timeline-{name}.svg"
    if request.config.getoption("--update-golden"):
        picture.write_text(draw(DRAWINGS[name]), "utf-8")
    assert picture.read_text("utf-8") == draw(DRAWINGS[name])
    assert picture.name in (ROOT / "docs/timelines.md").read_text("utf-8")
