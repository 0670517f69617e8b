"""What is served: files, folders, stores and rules by name, and nothing else."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.web.conftest import TOKEN, Bench, serving, write_events

from cepheid import EventStore
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import Columns
from cepheid.interfaces.web.app import STATIC
from cepheid.interfaces.web.settings import Limits, Settings, find_settings

pytestmark = pytest.mark.xdist_group("web")
BYTES_MAX = 1_000_000
FUNCTIONS = """
import cepheid
import pyarrow.compute as pc

def twice(values):
    return pc.multiply(values, 2.0)

cepheid.function("twice_of_tests", twice, returns="double", types=["double"])
"""


def found(*places: Path, write: bool = False) -> Settings:
    return find_settings(map(str, places), Columns(), Limits(seconds=60), write=write)


def test_a_folder_is_a_data_set_and_so_are_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    write_events(folder)
    (folder / "notes.txt").write_text("no events")
    assert set(found(folder).sets) == {"log/", "events"}


def test_links_that_lead_out_of_a_folder_are_left_out(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "log"
    outside.mkdir()
    folder.mkdir()
    write_events(folder)
    secret = outside / "secret.parquet"
    parquet.write_table(pa.table({"ts": [1], "type": ["A"]}), secret)
    (folder / "secret.parquet").symlink_to(secret)
    assert set(found(folder).sets) == {"events"}
    # One that comes later is not read.
    (folder / "secret.parquet").unlink()
    with serving(found(folder)) as bench:
        (folder / "secret.parquet").symlink_to(secret)
        assert bench.ask("/api/data/log/")["events"] == 200


def test_a_store_and_rules(tmp_path: Path) -> None:
    store = EventStore(tmp_path / "trades")
    store.append(pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]}))
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "pairs.cq").write_text("RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 us SLIDE 10 us")
    (rules / "bs.cq").write_text("RETURN COUNT(*) PATTERN B WITHIN 10 us SLIDE 10 us")
    settings = found(tmp_path / "trades", rules, write=True)
    assert settings.sets["trades"].kind == "store"
    assert set(settings.queries) == {"pairs", "bs"}
    with serving(settings) as bench:
        told = bench.run(settings.queries["pairs"], data="trades")
        rows = bench.ask(f"/api/runs/{told['id']}/rows")["rows"]
        assert [row[-1] for row in rows] == [2.0]
        live = bench.ask("/api/live", {"data": "trades", "rules": True, "watermark": "0 seconds"})
        data = bench.send(f"/api/live/{live['id']}/events")[2]
        assert b'"rules":{"bs":1,"pairs":1}' in data or b'"rules":{"pairs":1,"bs":1}' in data
        bench.ask("/api/save", {"name": "third", "text": "PATTERN A"})
        assert (rules / "third.cq").read_text() == "PATTERN A\n"
        for name in ("../x", "a/b", "", ".x"):
            status = bench.send("/api/save", {"name": name, "text": "PATTERN A"})[0]
            assert status == 400, name


def test_a_store_in_a_folder_is_one_data_set(tmp_path: Path) -> None:
    write_events(tmp_path)
    EventStore(tmp_path / "trades").append(pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"]}))
    kinds = {one.name: one.kind for one in found(tmp_path).sets.values()}
    assert kinds == {"trades": "store", "events": "file"}


def test_a_folder_that_grows_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    parquet.write_table(pa.table({"ts": [1, 2], "type": ["A", "A"]}), folder / "1.parquet")
    with serving(found(folder)) as bench:
        text = "RETURN COUNT(*) PATTERN A WITHIN 10 us SLIDE 10 us"
        told = bench.ask("/api/live", {"text": text, "data": "log/", "follow": True})
        wait_for(bench, told["id"], 2)
        parquet.write_table(pa.table({"ts": [15, 16], "type": ["A", "A"]}), folder / ".2")
        (folder / ".2").rename(folder / "2.parquet")
        wait_for(bench, told["id"], 4)
        stopped = bench.ask(f"/api/live/{told['id']}/stop", {})
        assert stopped["answer"]["rows"] == 1
        assert not stopped["answer"]["ended"]


def wait_for(bench: Bench, id_: str, events: int) -> None:
    told = {"events": 0}
    for _ in range(300):
        told = bench.ask(f"/api/runs/{id_}")
        assert told["status"] == "running", told
        if told["events"] == events:
            return
        time.sleep(0.1)
    pytest.fail(f"{told['events']} events came")


def test_workers_know_functions_of_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_events(tmp_path)
    (tmp_path / "own_functions.py").write_text(FUNCTIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = msgspec.structs.replace(found(path), functions=("own_functions",))
    with serving(settings) as bench:
        told = bench.run("SELECT COUNT(*) AS n FROM events WHERE twice_of_tests(price) > 4")
        assert told["answer"]["rows"] == 1, told


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="no such file or folder"):
        found(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(WrongUseError, match="neither events nor rules"):
        found(tmp_path)


def test_the_bundled_events_are_there_without_any_place() -> None:
    names = {"departures", "driving", "loans", "payments", "shop", "spy", "trades", "web"}
    assert set(found().sets) == names


def test_the_page_is_small_and_asks_nobody_else() -> None:
    files = list(STATIC.iterdir())
    assert sum(file.stat().st_size for file in files) < BYTES_MAX
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"(?:src|href)=\"(?!/static/|#)[^\"]*\"", page) == []
    assert "<style" not in page
    assert TOKEN not in page


def test_a_funnel_is_drawn_as_steps(tmp_path: Path) -> None:
    write_events(tmp_path)
    with serving(found(tmp_path / "events.parquet")) as bench:
        text = "RETURN FUNNEL(symbol) PATTERN SEQ(view a, buy b) WITHIN 1 minute"
        told = bench.run(text)
        chart = bench.ask(f"/api/runs/{told['id']}/chart")
        assert chart["kind"] == "funnel"
        assert [step["text"] for step in chart["steps"]] == ["a", "b"]
