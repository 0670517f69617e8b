"""Every guide runs as the notebook that is made of it, and shows what its page shows."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import time
from pathlib import Path
from typing import Any

import pytest

import cepheid
from cepheid.pictures import Picture

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
CELL_S = 10
"""The most processor time of a cell; most take a tenth of a second."""
PICTURE_BYTES = 150_000


def load(name: str) -> Any:
    """Load a module of the site, which is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / f"site/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run a cell as a notebook does: what it prints, and the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # our own pages
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    shown = "" if value is None else repr(value)
    return "\n".join(filter(None, [printed.getvalue(), shown])), value


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_notebook_of_a_guide_runs(page: Path, request: pytest.FixtureRequest) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    pictures = 0
    for cell in load("notebooks").cells(page):
        if cell["cell_type"] != "code":
            continue
        begun = time.process_time()
        shown, value = run_cell(cell["source"], names)
        taken = time.process_time() - begun
        expected = cell["outputs"][0]["data"]["text/plain"] if cell["outputs"] else ""
        assert words(shown) == words(expected), cell["source"]
        assert taken < CELL_S, cell["source"]
        wanted = cell["metadata"].get("picture")
        assert isinstance(value, Picture) == (wanted is not None), cell["source"]
        if isinstance(value, Picture):
            pictures += 1
            check_picture(value, page.parent / wanted, request)
    assert pictures >= 1


def check_picture(picture: Picture, path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        picture.save(path)
    assert path.stat().st_size < PICTURE_BYTES
    drawn, kept = picture._repr_mimebundle_()["image/svg+xml"], path.read_text("utf-8")
    # vl-convert counts the places that it clips, in all pictures of a process.
    same = re.sub(r"clip\d+", "clip", drawn) == re.sub(r"clip\d+", "clip", kept)
    assert same, "draw it anew: --update-golden"


HOME = ROOT / "docs/index.md"
QUERY_AND_PICTURE = re.compile(
    r"^```cepheid\n(?P<query>.*?)^```\n\n!\[[^\]]+\]\((?P<picture>[^)]+\.svg)\)$",
    re.MULTILINE | re.DOTALL,
)
EVENTS = {"home-funnel": "shop", "home-absence": "shop", "home-trend": "trades"}


def test_the_pictures_of_the_home_page_are_those_of_its_queries(
    request: pytest.FixtureRequest,
) -> None:
    drawn = set()
    for found in QUERY_AND_PICTURE.finditer(HOME.read_text("utf-8")):
        path = HOME.parent / found["picture"]
        shown = cepheid.query(found["query"]).show(cepheid.bundled(EVENTS[path.stem]))
        picture = shown.funnel() if "FUNNEL" in found["query"] else shown.chart()
        check_picture(picture, path, request)
        drawn.add(path.stem)
    assert drawn == EVENTS.keys()


def test_every_guide_tells_of_its_events_and_licence() -> None:
    assert {"fraud", "funnels", "logs", "machines", "markets", "processes"} <= {
        page.stem for page in GUIDES
    }
    for page in GUIDES:
        assert "## The events" in page.read_text("utf-8"), page.stem
