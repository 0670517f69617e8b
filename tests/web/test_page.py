"""The page in a real browser: mistakes, fixes, runs, the timeline, live, keys and contrast.

`CEPHEID_PICTURES=1` also writes the pictures of docs/workbench.md.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.servers import leave_out
from tests.web.conftest import Bench, serving, settings_of

pytestmark = [pytest.mark.xdist_group("web"), pytest.mark.timeout(180)]

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
)
PICTURES = Path(__file__).parents[2] / "docs" / "img"
EVENTS = 1_000_000
WAIT_MS = 60_000

WRONG = """RETURN MATCHES
PATTERN SEQ(order A, refund B)
SEMANTICS skip-till-next-match
WHERE [shop] AND A.price > 470 AND B.prise > A.price
WITHIN 10 seconds"""
SMALL = """RETURN MATCHES
PATTERN SEQ(view A, buy B)
WHERE [symbol] AND B.prise > A.price
WITHIN 9 seconds"""
COUNTS = """SELECT shop, COUNT(*) AS events, AVG(price) AS mean
FROM events
GROUP BY shop
WINDOW 10 minutes"""


def write_shops(folder: Path) -> Path:
    """Write a million events of eight shops, each busy at another hour of a day."""
    draw = np.random.default_rng(7)
    first = int(np.datetime64("2026-03-14T08:00:00", "us").astype(np.int64))
    kinds = np.array(["view", "order", "refund"])
    places = np.array(["Berlin", "Bogotá", "Kyoto", "Lagos", "Lima", "Oslo", "Pune", "Turin"])
    day = np.sort(draw.random(EVENTS))
    busiest = np.arange(8) / 8
    weights = 1.1 + np.cos(2 * np.pi * (day[:, None] - busiest[None, :]))
    chances = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    shop = (draw.random(EVENTS)[:, None] > chances).sum(axis=1).clip(0, 7)
    table = pa.table(
        {
            "ts": pa.array(first + (day * 50_000_000_000).astype(np.int64)).cast(
                pa.timestamp("us", "UTC")
            ),
            "type": pa.array(kinds[draw.choice(3, EVENTS, p=[0.7, 0.25, 0.05])]),
            "shop": pa.array(places[shop]),
            "price": pa.array(np.round(draw.random(EVENTS) * 500, 2)),
        }
    )
    path = folder / "shops.parquet"
    parquet.write_table(table, path)
    return path


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("shops")
    with serving(settings_of(write_shops(folder))) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        leave_out("no browser: install the package chromium")
    if importlib.util.find_spec("playwright") is None:
        leave_out("no playwright: `make dev` installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS.split())
        yield opened
        opened.close()


class Visit:
    """A page of a workbench, and what went wrong on it."""

    def __init__(self, browser: Any, bench: Bench, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 860})
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._hear)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(bench.address)
        self.page.wait_for_selector(".cm-content")
        self.page.wait_for_selector("#columns table")

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(message.text)

    def write(self, text: str) -> None:
        """Put a text into the editor, as a person who pastes it."""
        self.page.click(".cm-content")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Backspace")
        self.page.keyboard.insert_text(text)

    def run(self) -> None:
        self.page.click("#run")
        self.page.wait_for_function(
            "() => /rows/.test(document.querySelector('#status').textContent)"
        )

    def tab(self, name: str) -> None:
        self.page.click(f"[role=tab]:has-text('{name}')")

    def picture(self, name: str) -> None:
        """Write a picture of the documentation, if that was asked for."""
        if os.environ.get("CEPHEID_PICTURES"):
            PICTURES.mkdir(exist_ok=True)
            self.page.screenshot(path=str(PICTURES / f"workbench-{name}.png"))

    def end(self) -> None:
        self.context.close()
        assert self.faults == []
        own = re.compile(r"(?:http://127\.0\.0\.1:\d+/|blob:|data:)")
        assert [url for url in self.asked if not own.match(url)] == []


def serious(page: Any) -> list[str]:
    """List what axe-core finds serious, with the places."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node.get('failureSummary', '')[:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def wait_until_painted(page: Any) -> None:
    """Wait until thousands of pixels of the timeline are neither background nor text.

    The first frames are drawn before the server has sent a tile.
    """
    page.wait_for_function(
        """() => {
        const canvas = document.querySelector('canvas.timeline');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        let coloured = 0;
        for (let n = 0; n < data.length; n += 4) {
            const most = Math.max(data[n], data[n + 1], data[n + 2]);
            if (most - Math.min(data[n], data[n + 1], data[n + 2]) > 60) coloured += 1;
        }
        return coloured > 5000;
    }""",
        polling=100,
    )


def drawn(page: Any) -> str:
    """Return the picture of the timeline; two views of it may paint equally many pixels."""
    return str(page.evaluate("() => document.querySelector('canvas.timeline').toDataURL()"))


def place_pointer(page: Any, canvas: Any) -> tuple[float, float]:
    """Move the pointer to the middle of the timeline, and return where that is."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    return x, y


def test_a_wrong_query_is_fixed_by_a_click_and_its_matches_are_seen(
    browser: Any, shops: Bench
) -> None:
    visit = Visit(browser, shops)
    page = visit.page
    visit.write(WRONG)
    page.wait_for_selector(".problem")
    message = page.inner_text(".problem pre")
    assert "error[E201]: event type `refund` has no attribute `prise`" in message
    assert "^^^^^" in message
    assert page.locator(".cm-lintRange-error").count() >= 1
    visit.picture("mistake")
    page.click("button.fix")
    page.wait_for_selector(".problem", state="detached")
    page.wait_for_selector(".automaton")
    assert "B.price > A.price" in page.inner_text("#editor")
    page.click("button.reason:has-text('A.price > 470')")
    assert page.inner_text(".marked") == "A.price > 470"
    visit.picture("plan")
    visit.run()
    assert "1,000,000 events" in page.inner_text("#status")
    page.wait_for_selector("canvas.timeline[data-frames]")
    page.wait_for_function("() => Number(document.querySelector('canvas').dataset.frames) > 1")
    assert page.inner_text(".about").startswith("1 M events, 8 lanes")
    wait_until_painted(page)
    visit.picture("timeline")
    page.click("text=Next span")
    assert "match 1 in" in page.inner_text(".told")
    page.click("button:has-text('Open')")
    page.wait_for_selector("dialog tr.taken")
    assert page.locator("dialog tr.taken").count() == 2
    assert "A.price > 470" in page.inner_text("dialog tr.taken >> nth=0")
    visit.picture("match")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    visit.end()


def test_the_timeline_moves_without_waiting_for_the_server(browser: Any, shops: Bench) -> None:
    visit = Visit(browser, shops)
    page = visit.page
    visit.tab("Timeline")
    # Lanes follow the query's key, which the server tells after the page has opened.
    page.wait_for_selector(".about:has-text('8 lanes')")
    wait_until_painted(page)
    before = drawn(page)
    canvas = page.locator("canvas.timeline")
    for _ in range(60):  # The page may still move: answers about the query come above the canvas.
        place_pointer(page, canvas)
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(500)
        if drawn(page) != before:
            break
    assert drawn(page) != before
    x, y = place_pointer(page, canvas)
    frames = int(canvas.get_attribute("data-frames"))
    page.mouse.down()
    for step in range(20):
        page.mouse.move(x - 8 * step, y)
    page.mouse.up()
    page.wait_for_function(
        f"() => Number(document.querySelector('canvas.timeline').dataset.frames) > {frames}"
    )
    visit.end()


def test_lanes_follow_the_query_until_a_person_picks_them(browser: Any, shops: Bench) -> None:
    visit = Visit(browser, shops)
    page = visit.page
    visit.write("RETURN COUNT(*) PATTERN SEQ(view A, order B) WITHIN 1 minute")
    page.wait_for_selector(".sections")
    visit.tab("Timeline")
    page.wait_for_selector(".about:has-text('1 lane')")
    visit.write("RETURN COUNT(*) PATTERN SEQ(view A, order B) WHERE [shop] WITHIN 1 minute")
    page.wait_for_selector(".about:has-text('8 lanes')")
    page.select_option("#view-timeline select", "type")
    page.wait_for_selector(".about:has-text('3 lanes')")
    visit.tab("Plan")
    visit.tab("Timeline")
    page.wait_for_selector(".about:has-text('3 lanes')")
    visit.end()


def test_rows_a_chart_and_why_not(browser: Any, bench: Bench) -> None:
    visit = Visit(browser, bench)
    page = visit.page
    visit.write("SELECT symbol, COUNT(*) AS events FROM s GROUP BY symbol WINDOW 1 minute")
    page.wait_for_selector(".sections")
    visit.run()
    page.wait_for_selector("#view-table td.number")
    visit.tab("Chart")
    page.wait_for_selector("polyline")
    assert page.locator("polyline").count() == 3
    visit.write("RETURN COUNT(*) PATTERN SEQ(view A, sell B) WITHIN 1 minute")
    visit.tab("Why not")
    page.click("#view-why button")
    page.wait_for_selector(".funnel")
    assert "No event has the type `sell`." in page.inner_text(".sentences")
    visit.end()


def test_a_live_replay_shows_rows_stops_and_goes_on(browser: Any, shops: Bench) -> None:
    visit = Visit(browser, shops)
    page = visit.page
    visit.write(COUNTS)
    page.wait_for_selector(".sections")
    visit.tab("Live")
    page.click("button:has-text('Start')")
    page.wait_for_selector(".live-rows tr")
    visit.picture("live")
    page.click("button:has-text('Stop')")
    page.wait_for_selector("text=Stopped; the state is saved.")
    page.click("button:has-text('Go on')")
    page.wait_for_selector(".live-rows tr")
    page.click("button:has-text('Stop')")
    page.wait_for_selector("text=Stopped; the state is saved.")
    visit.end()


def test_hostile_values_stay_text(browser: Any, bench: Bench) -> None:
    visit = Visit(browser, bench)
    page = visit.page
    visit.write("SELECT symbol, COUNT(*) AS n FROM events GROUP BY symbol WINDOW 1 hour")
    page.wait_for_selector(".sections")
    visit.run()
    page.wait_for_selector("#view-table td:has-text('<img src=x')")
    assert page.locator("#views img").count() == 0
    visit.end()


def test_a_link_brings_the_query_and_no_token(browser: Any, shops: Bench) -> None:
    visit = Visit(browser, shops)
    page = visit.page
    assert "token" not in page.url
    address = f"http://127.0.0.1:{shops.port}/#q=RETURN+COUNT(*)+PATTERN+order&data=shops"
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#columns table")
    assert page.inner_text(".cm-line") == "RETURN COUNT(*) PATTERN order"
    visit.end()


def test_keys_alone_are_enough(browser: Any, shops: Bench) -> None:
    visit = Visit(browser, shops)
    page, keys = visit.page, visit.page.keyboard
    visit.write(WRONG.replace("prise", "price"))
    page.wait_for_selector(".automaton")
    keys.press("Control+Enter")
    page.wait_for_selector("canvas.timeline[data-frames]")
    page.focus("[role=tab][aria-selected=true]")
    keys.press("ArrowRight")
    assert page.inner_text("[role=tab][aria-selected=true]") == "Why not"
    keys.press("ArrowLeft")
    page.focus("canvas.timeline")
    for key in ("+", "ArrowRight", "-", "0", "n", "Enter"):
        keys.press(key)
    page.wait_for_selector("dialog tr.taken")
    keys.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    # Tab leaves the editor, which must not be a trap.
    page.focus(".cm-content")
    keys.press("Escape")
    keys.press("Tab")
    assert page.evaluate("document.activeElement.className.includes('cm-content')") is False
    visit.end()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_everybody_can_use_it(browser: Any, bench: Bench, scheme: str, width: int) -> None:
    size = {"width": width, "height": 860}
    visit = Visit(browser, bench, viewport=size, color_scheme=scheme)
    page = visit.page
    visit.write(SMALL)
    page.wait_for_selector(".problem")
    page.click("button.fix")
    page.wait_for_selector(".problem", state="detached")
    found = serious(page)
    visit.run()
    page.wait_for_selector("canvas.timeline[data-frames]")
    found += serious(page)
    wide = []
    for name in ("Table", "Live", "Plan"):
        visit.tab(name)
        wide.append(page.evaluate("document.documentElement.scrollWidth"))
    visit.write("RETURN COUNT(*) PATTERN by B")
    visit.tab("Live")
    found += serious(page)
    assert found == []
    assert max(wide) <= width
    visit.end()
