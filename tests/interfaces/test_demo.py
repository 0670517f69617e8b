"""``cepheid demo``: the story without Spark, and the whole one in the session of the tests."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.make_shop import TARGET, make_shop
from pyarrow import parquet
from tests.interfaces.program import run, run_in

from cepheid.interfaces import demo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES_MAX = 45


def test_the_shop_is_what_its_script_makes() -> None:
    assert parquet.read_table(TARGET).equals(make_shop())
    assert TARGET.stat().st_size < 300_000


def _check_page(path: Path, sections: int) -> str:
    page = path.read_text("utf-8")
    HTMLParser().feed(page)
    assert page.count("<section>") == page.count("<svg") == sections
    assert not re.search(r"https?:|src=|href=|@import|url\(", page), "it asks no network"
    assert "prefers-color-scheme: dark" in page
    return page


def test_without_java_the_first_answers_come_and_one_line_says_what_is_lacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    page = tmp_path / "build/demo.html"
    done = run("demo", "--page", page, own=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert re.search(r"visit +100 % █+ 1,200\n", done.stdout)
    assert re.search(r"paid +22 % █+.? 259\n", done.stdout)
    assert "27 orders worth 5,654.00" in done.stdout
    assert done.stdout.count("Java 17 (openjdk-17-jre-headless) would add") == 1
    assert "openjdk" in _check_page(page, 2)


def test_with_spark_all_answers_come(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run_in(spark, "demo")
    assert len(shown.splitlines()) <= LINES_MAX
    assert max(map(len, shown.splitlines())) <= 100
    assert re.search(r"SPY +[▁▂▃▄▅▆▇█·]+ +most 3.56e\+19", shown)
    assert "19:32 ALERT visit 231: 4 cards declined, 316.00" in shown
    assert "would add" not in shown
    assert "polyline" in _check_page(Path("demo.html"), 4)


def test_pyspark_is_what_is_lacking_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert demo.what_spark_lacks().startswith("PySpark")
