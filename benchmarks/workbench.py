"""What a person waits for in the workbench: the first paint, messages while typing, and frames.

``python -m benchmarks.workbench [events]`` serves a file of so many events, opens it in Chromium
and prints a table. It measures time as it passes, so a busy machine shows.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from playwright.sync_api import sync_playwright
from pyarrow import parquet
from tests.web.conftest import serving, settings_of

FLAGS = "--no-sandbox --disable-gpu --no-first-run --disable-background-networking"
QUERY = (
    "RETURN COUNT(*) PATTERN trade T+ WHERE [symbol] AND T.price > NEXT(T).price WITHIN 10 minutes"
)


def write_events(folder: Path, count: int) -> Path:
    draw = np.random.default_rng(1)
    names = np.array([f"S{n:02}" for n in range(40)])
    first = 1_760_000_000_000_000
    times = first + np.cumsum(draw.integers(1, 20_000, count))
    kinds = np.array(["trade", "quote", "halt"])
    columns = {
        "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
        "type": pa.array(kinds[draw.integers(0, 3, count)]),
        "symbol": pa.array(names[draw.integers(0, 40, count)]),
        "price": pa.array(np.round(draw.random(count) * 100, 2)),
    }
    path = folder / "events.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


PAINT = """() => performance.getEntriesByName('first-contentful-paint')[0].startTime"""
TYPED = """() => new Promise((done) => {
    const begun = performance.now();
    new MutationObserver((_, watcher) => { watcher.disconnect(); done(performance.now() - begun); })
        .observe(document.querySelector('#problems'), { childList: true });
    document.execCommand('insertText', false, 'x');
})"""
FRAMES = """() => new Promise((done) => {
    const canvas = document.querySelector('canvas.timeline');
    const box = canvas.getBoundingClientRect();
    const at = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind,
        { clientX: box.left + x, clientY: box.top + 60, pointerId: 1, bubbles: true }));
    canvas.setPointerCapture = () => {};
    at('pointerdown', 600);
    const begun = performance.now(), first = Number(canvas.dataset.frames);
    let x = 600;
    const step = () => {
        x -= 2;
        at('pointermove', x);
        if (performance.now() - begun < 3000) requestAnimationFrame(step);
        else {
            at('pointerup', x);
            const seconds = (performance.now() - begun) / 1000;
            done((Number(canvas.dataset.frames) - first) / seconds);
        }
    };
    requestAnimationFrame(step);
})"""


def measure(page: Any, address: str) -> dict[str, float]:
    page.goto(address)
    page.wait_for_selector("#columns table")
    figures = {"first paint, ms": page.evaluate(PAINT)}
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(QUERY)
    page.wait_for_selector(".automaton")
    waits = []
    for _ in range(15):
        waits.append(page.evaluate(TYPED))
        page.wait_for_timeout(150)
    figures["a key to its message, median ms"] = statistics.median(waits)
    figures["a key to its message, slowest ms"] = max(waits)
    page.click("[role=tab]:has-text('Timeline')")
    page.wait_for_selector("canvas.timeline[data-frames]", timeout=120_000)
    page.select_option(".pager select", "symbol")
    page.wait_for_timeout(8_000)
    figures["frames a second, all events"] = page.evaluate(FRAMES)
    for _ in range(5):
        page.click("button[aria-label='Zoom in']")
    page.wait_for_timeout(500)
    figures["frames a second, zoomed in"] = page.evaluate(FRAMES)
    return figures


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = write_events(Path(folder), count)
        with serving(settings_of(path)) as bench, sync_playwright() as play:
            browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS.split())
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            for name, value in measure(page, bench.address).items():
                print(f"{name:<36} {value:8.1f}")
            page.screenshot(path=str(Path(tempfile.gettempdir()) / "workbench.png"))
            browser.close()


if __name__ == "__main__":
    main()
