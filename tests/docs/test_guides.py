"""A kernel of Jupyter runs the notebook of every guide, which shows what its page shows."""

from __future__ import annotations

import copy
import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import cepheid
from cepheid.pictures.drawn import drawn

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
CELL_S = 120
"""The most time of a cell, on a busy machine; most take a tenth of a second."""
SVG = "image/svg+xml"
PICTURE_BYTES = 150_000


def load(name: str) -> Any:
    """Load a module of the site, which is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / f"site/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(text: str) -> list[str]:
    return text.split()


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a kernel writes, such as its history, in the folder of the test."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_notebook_of_a_guide_runs_in_a_kernel(
    page: Path, request: pytest.FixtureRequest
) -> None:
    written = nbformat.reads(load("notebooks").notebook(page), as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    nbformat.validate(written)
    run = NotebookClient(copy.deepcopy(written), timeout=CELL_S, kernel_name="python3").execute()
    pictures = 0
    for cell, ran in zip(written.cells, run.cells, strict=True):
        if cell.cell_type != "code":
            continue
        expected = cell.outputs[0].data["text/plain"] if cell.outputs else ""
        assert words(shown_text(ran)) == words(expected), cell.source
        drawn = [one.data[SVG] for one in ran.outputs if SVG in one.get("data", {})]
        wanted = cell.metadata.get("picture")
        assert len(drawn) == (wanted is not None), cell.source
        for picture in drawn:
            pictures += 1
            check_picture(picture, page.parent / wanted, request)
    assert pictures >= 1


def shown_text(cell: Any) -> str:
    """Return what a cell prints, and the text of its last value."""
    return "\n".join(one.text if "text" in one else one.data["text/plain"] for one in cell.outputs)


def check_picture(drawn: str, path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        path.write_text(drawn, "utf-8")
    assert path.stat().st_size < PICTURE_BYTES
    assert _as_seen(drawn) == _as_seen(path.read_text("utf-8")), "draw it anew: --update-golden"


def _as_seen(picture: str) -> str:
    """Drop what nobody sees: the last digits of sums of doubles, whose order is free."""
    # vl-convert counts the places that it clips, in all pictures of a process.
    picture = re.sub(r"clip\d+", "clip", picture)
    return re.sub(r"\d+\.\d{6,}", lambda found: f"{float(found[0]):.6f}", picture)


HOME = ROOT / "docs/index.md"
QUERY_AND_PICTURE = re.compile(
    r"^```cepheid\n(?P<query>.*?)^```\n\n!\[[^\]]+\]\((?P<picture>[^)]+\.svg)\)$",
    re.MULTILINE | re.DOTALL,
)
EVENTS = {"home-funnel": "shop", "home-absence": "shop", "home-trend": "trades"}


def test_the_pictures_of_the_home_page_are_those_of_its_queries(
    request: pytest.FixtureRequest,
) -> None:
    found_pictures = set()
    for found in QUERY_AND_PICTURE.finditer(HOME.read_text("utf-8")):
        path = HOME.parent / found["picture"]
        shown = cepheid.query(found["query"]).show(cepheid.bundled(EVENTS[path.stem]))
        picture = shown.funnel() if "FUNNEL" in found["query"] else shown.chart()
        check_picture(picture._repr_mimebundle_()[SVG], path, request)
        found_pictures.add(path.stem)
    assert found_pictures == EVENTS.keys()


def test_the_picture_of_the_recipe_is_that_of_its_query(request: pytest.FixtureRequest) -> None:
    page = (ROOT / "docs/recipes.md").read_text("utf-8")
    (pattern,) = re.findall(r'^>>> falling = "(.*)"$', page, re.MULTILINE)
    shown = cepheid.query(f"RETURN BLAME() {pattern}").show(cepheid.bundled("trades"))
    drawing = drawn(shown.timeline().spec, ".png")
    path = ROOT / "docs/img/recipe-blame.png"  # As SVG, 2,000 points are 400 kB.
    if request.config.getoption("--update-golden"):
        path.write_bytes(drawing)
    assert drawing == path.read_bytes(), "draw it anew: --update-golden"


def test_every_guide_tells_of_its_events_and_licence() -> None:
    assert {"fraud", "funnels", "logs", "machines", "markets", "processes"} <= {
        page.stem for page in GUIDES
    }
    for page in GUIDES:
        assert "## The events" in page.read_text("utf-8"), page.stem
