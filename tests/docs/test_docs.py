"""Every example in README and docs runs, every code is documented, and links lead somewhere."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from tests.row_pattern.ticks import run_on_ticks
from tests.spark_options import options

import cepheid
from cepheid.interfaces.catalogue import error_pages
from cepheid.interfaces.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = ROOT / "docs/guides"
"""The blocks of a guide are the cells of one notebook: test_guides.py runs them in their order."""
SOURCES = sorted((ROOT / "src/cepheid").rglob("*.py"))
CODES = set(re.findall(r'"([EW]\d{3})"', "".join(p.read_text("utf-8") for p in SOURCES)))
BLOCK = re.compile(r"^```([\w-]*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def uses_spark(language: str, text: str) -> bool:
    """Return whether a block runs on Spark."""
    return language == "python" and "spark" in text.lower()


def blocks(language: str) -> list[ParameterSet]:
    """Return the code blocks of all pages in a language, as test parameters."""
    return [
        pytest.param(
            block[2].split(),
            block[3],
            id=f"{page.relative_to(ROOT)}-{number}",
            marks=[pytest.mark.xdist_group("spark")] if uses_spark(language, block[3]) else [],
        )
        for page in PAGES
        for number, block in enumerate(BLOCK.finditer(page.read_text("utf-8")))
        if block[1] == language and not (language == "python" and page.parent == GUIDES)
    ]


def compile_block(words: list[str], text: str) -> cepheid.CompiledQuery:
    if words == ["nested"]:
        text, words = text.replace("...", "NOT " * 110), []
    schema = dict(word.split(":") for word in words) or None
    return cepheid.query(text.strip(), schema=schema)


def test_every_block_has_a_language_that_a_test_knows() -> None:
    known = {"cepheid", "cepheid-error", "cepheid-warning", "python", "sh", "text", "mermaid"}
    known |= {"sql", "sql-error", "json"}
    found = {m[1] for page in PAGES for m in BLOCK.finditer(page.read_text("utf-8"))}
    assert found <= known


@pytest.mark.parametrize(("words", "text"), blocks("cepheid"))
def test_queries_of_the_docs_have_no_mistake(words: list[str], text: str) -> None:
    assert compile_block(words, text).plan is not None


@pytest.mark.parametrize(("words", "text"), blocks("json"))
def test_settings_of_the_docs_name_a_command(words: list[str], text: str) -> None:
    assert not words, "only settings are JSON"
    for server in json.loads(text)["mcpServers"].values():
        assert server["command"] == "cepheid"
        assert app.find(server["args"]) is not None


@pytest.mark.parametrize("code", sorted(error_pages()))
def test_examples_of_the_error_pages_give_their_code(code: str) -> None:
    for kind, words, text in BLOCK.findall(error_pages()[code]):
        if kind == "cepheid-warning":
            found = [w.code for w in compile_block(words.split(), text).warnings]
        else:
            with pytest.raises(cepheid.CepheidError) as caught:
                run_on_ticks(text) if kind == "sql-error" else compile_block(words.split(), text)
            found = [d.code for d in caught.value.diagnostics]
        assert found == [code]


def test_every_code_has_a_page_and_a_golden_file() -> None:
    assert set(error_pages()) == CODES
    golden = {path.stem for path in (ROOT / "tests/golden/errors").glob("*.golden")}
    # What only data or a run can show is tested with data: tests/interfaces and tests/engine.
    shown = {code for code, page in error_pages().items() if "```" in page}
    assert shown <= golden
    with_data = {
        f"E5{n:02}"
        for n in (*range(1, 20), *range(21, 27), *range(31, 39), *range(41, 50), 51, 52, 56, 57)
    } | {
        *(
            "E553",
            "E554",
            "E560",
            "E561",
            "E562",
            "E563",
            "E564",
            "E565",
            "E570",
            "E571",
            "E572",
            "E573",
            "E574",
            "E575",
            "E576",
            "E577",
            "E578",
            "E580",
            "E581",
            "E582",
            "E583",
            "E585",
            "E590",
            "E591",
            "E592",
            "E593",
        ),
        *("E595", "E596", "E597", "E598"),
        "E346",
        "E610",
        "E611",
        "E612",
        "E616",
        "E614",
        *("W206", "W207", "W208", "W209", "W501"),
    }
    assert (
        CODES - shown
        == {"E329", "E402", "E403", "E404", "E405", "E406", "E407", "E432", "E433"} | with_data
    )


@pytest.mark.parametrize(("words", "text"), blocks("sql"))
def test_sql_of_the_docs_runs(words: list[str], text: str) -> None:
    del words
    assert run_on_ticks(text).num_columns


@pytest.mark.parametrize(("words", "text"), blocks("python"))
def test_python_of_the_docs_runs_and_prints_what_it_says(
    words: list[str], text: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    del words
    if "import polars" in text:
        pytest.importorskip("polars")
    if uses_spark("python", text):
        # Pages take the session of the tests for theirs, and must not end it.
        session = request.getfixturevalue("spark")
        monkeypatch.setattr(type(session), "stop", lambda _: None)
        # Nor may their settings stay: other tests on this session count on theirs.
        for name, value in options().items():
            if session.conf.isModifiable(name):
                request.addfinalizer(partial(session.conf.set, name, value))
    if ">>>" in text:
        test = doctest.DocTestParser().get_doctest(text, {}, "docs", None, 0)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(test)
        assert runner.failures == 0, "see the captured output"
    else:
        exec(compile(text, "docs", "exec"), {})  # our own pages


@pytest.mark.parametrize(("words", "text"), blocks("sh"))
def test_commands_of_the_docs_exist(words: list[str], text: str) -> None:
    """``make`` targets exist; ``cepheid`` commands on bundled files run."""
    del words
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        program, *arguments = line.split()
        if program == "make":
            for target in (a for a in arguments if "=" not in a):
                assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
        elif program in ("cepheid", "cat", "printf"):
            run_line(line)
        else:
            assert program in ("pip", "git", "cd"), line


def run_line(line: str) -> None:
    """Run a line of our own pages as a shell does, with quotes and pipes."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-o", "pipefail", "-c", line]
    variables = os.environ | {"PATH": path}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, check=False, timeout=900, env=variables
    )
    assert done.returncode == 0, (line, done.stderr.decode())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    # The page of errors lives in the package and is read in docs.
    folder = ROOT / "docs" if page.name == "errors.md" else page.parent
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (folder / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_examples_in_docstrings_run(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    module = __import__(name, fromlist=["_"])
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, "see the captured output"


def test_every_rule_and_every_code_has_one_entry() -> None:
    rules = re.findall(r"^- \*\*(§[\d.]+)\*\*", page_text("docs/semantics.md"), re.MULTILINE)
    codes = re.findall(r"^### ([EW]\d{3}) ", page_text("docs/errors.md"), re.MULTILINE)
    assert len(set(rules)) == len(rules) > 80
    assert len(set(codes)) == len(codes) > 100


def page_text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")
