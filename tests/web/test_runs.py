"""Texts, runs, timelines and live queries, by the endpoints that the page calls."""

from __future__ import annotations

import io
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet
from tests.web.conftest import Bench, serving, settings_of, write_events

import cepheid
from cepheid.interfaces.web.settings import Limits

pytestmark = pytest.mark.xdist_group("web")

MATCHES = """RETURN MATCHES
PATTERN SEQ(view A, buy B)
SEMANTICS skip-till-next-match
WHERE [symbol] AND A.price > 3 AND B.price > A.price
WITHIN 30 seconds"""
COUNTS = "SELECT symbol, COUNT(*) AS n FROM events GROUP BY symbol WINDOW 1 minute"


def test_a_mistake_has_its_caret_and_a_fix_that_repairs_it(bench: Bench) -> None:
    text = "RETURN COUNT(*) PATTERN buy B WHERE B.prise > 5"
    told = bench.ask("/api/check", {"text": text, "data": "events"})
    (found,) = told["findings"]
    assert found["code"] == "E201"
    assert "^^^^^" in found["block"]
    edit = found["fixes"][0]["edits"][0]
    fixed = text[: edit["from"]] + edit["text"] + text[edit["to"] :]
    again = bench.ask("/api/check", {"text": fixed, "data": "events"})
    assert again["findings"] == []
    assert again["plan"]["evaluator"] == "linear"


def test_a_reason_of_the_plan_names_its_place(bench: Bench) -> None:
    text = "RETURN COUNT(*) PATTERN buy B+ WHERE [symbol] AND B.price > NEXT(B).price"
    plan = bench.ask("/api/check", {"text": text, "data": "events"})["plan"]
    lines = [line for section in plan["sections"] for line in section["lines"]]
    named = {text[a:b] for line in lines for a, b in line["spans"]}
    assert named == {"symbol", "B.price > NEXT(B).price"}
    (graph,) = plan["graphs"]
    assert [node["name"] for node in graph["nodes"]] == ["start", "B"]
    assert graph["nodes"][1]["type"] == "buy"
    loop = next(link for link in graph["links"] if link["source"] == link["target"] == 1)
    assert loop["conditions"][0]["text"] == "B.price > NEXT(B).price"


def test_places_count_as_a_browser_does(bench: Bench) -> None:
    text = "RETURN COUNT(*) /* \U0001f600 */ PATTERN buy B WHERE B.prise > 5"
    (found,) = bench.ask("/api/check", {"text": text, "data": "events"})["findings"]
    units = text.encode("utf-16-le")
    start, end = found["span"]
    assert units[2 * start : 2 * end].decode("utf-16-le") == "prise"


def test_completion_knows_columns_and_values(bench: Bench) -> None:
    asked = {"text": "PATTERN v", "data": "events", "offset": 9}
    assert [one["label"] for one in bench.ask("/api/complete", asked)] == ["view"]
    asked = {"text": "PATTERN buy B WHERE B.pr", "data": "events", "offset": 24}
    assert [one["label"] for one in bench.ask("/api/complete", asked)] == ["price"]


def test_hover_and_layout(bench: Bench) -> None:
    told = bench.ask("/api/hover", {"text": "PATTERN A", "offset": 2})
    assert told["span"] == [0, 7]
    assert bench.ask("/api/format", {"text": "pattern A within 5 s"})["text"].startswith(
        "PATTERN A"
    )
    assert bench.ask("/api/format", {"text": "PATTERN ("})["text"] is None


def test_rows_are_those_of_the_library(bench: Bench, tmp_path: Path) -> None:
    told = bench.run(COUNTS)
    assert told["status"] == "done", told
    wanted = cepheid.query(COUNTS).run(str(write_events(tmp_path)))
    page = bench.ask(f"/api/runs/{told['id']}/rows?limit=1000")
    assert page["total"] == len(wanted)
    assert [row[-1] for row in page["rows"]] == wanted["n"].to_pylist()
    status, headers, data = bench.send(f"/api/runs/{told['id']}/export?format=parquet")
    assert status == 200
    assert headers["content-disposition"].startswith("attachment")
    assert parquet.read_table(io.BytesIO(data)).to_pylist() == wanted.to_pylist()
    data = bench.send(f"/api/runs/{told['id']}/export?format=csv")[2]
    assert len(csv.read_csv(io.BytesIO(data))) == len(wanted)
    assert bench.send(f"/api/runs/{told['id']}/export?format=exe")[0] == 400


def test_hostile_values_steer_no_terminal(bench: Bench) -> None:
    told = bench.run(COUNTS)
    status, headers, data = bench.send(f"/api/runs/{told['id']}/rows")
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert b"\\u001b" not in data
    assert "<img src=x" in {row[0][:10] for row in json.loads(data)["rows"]}


def test_a_chart_has_a_line_for_every_group(bench: Bench) -> None:
    told = bench.run(COUNTS)
    chart = bench.ask(f"/api/runs/{told['id']}/chart")
    assert chart["kind"] == "lines"
    assert len(chart["series"]) == 3
    assert chart["numbers"] == ["n"]


def test_a_sweep_is_drawn_along_its_values(bench: Bench) -> None:
    one = "RETURN COUNT(*) AS n PATTERN view A WHERE A.price > SWEEP limit (1, 5, 1000)"
    chart = bench.ask(f"/api/runs/{bench.run(one)['id']}/chart")
    assert (chart["kind"], chart["numbers"], chart["axes"]) == ("lines", ["n"], ["limit"])
    assert [point[0] for point in chart["series"][0]["points"]] == [1, 5]
    windows = f"{one} AND A.price < SWEEP most (50, 60) WITHIN 1 second SLIDE 1 second"
    grid = bench.ask(f"/api/runs/{bench.run(windows)['id']}/chart")
    assert (grid["kind"], grid["numbers"], grid["axes"]) == ("grid", ["rows"], ["limit", "most"])
    cells = {(cell[0], cell[1]): cell[2] for cell in grid["cells"]}
    assert cells.keys() == {(x, y) for x in (1, 5, 1000) for y in (50, 60)}
    assert cells[1, 50] > cells[1000, 50] == 0


def test_blame_is_on_the_timeline(bench: Bench) -> None:
    told = bench.run("RETURN BLAME() PATTERN SEQ(view A, buy B) WHERE [symbol] GROUP-BY symbol")
    assert bench.ask(f"/api/runs/{told['id']}/chart")["kind"] == ""
    asked = {"data": "events", "key": "symbol", "run": told["id"]}
    made = bench.ask("/api/timelines", asked)["spans"]
    assert (made["kind"], made["total"]) == ("event", told["answer"]["rows"])
    shares = [span[6] for span in made["spans"]]
    assert shares == sorted(shares)
    page = bench.ask(f"/api/runs/{told['id']}/rows?limit=1000")
    names = [column["name"] for column in page["columns"]]
    best = page["rows"][made["spans"][-1][4]]
    assert best[names.index("share")] == shares[-1]
    assert made["spans"][-1][2] == best[names.index("symbol")]


def test_a_match_tells_why_each_event_was_taken_or_skipped(bench: Bench) -> None:
    told = bench.run(MATCHES)
    assert told["status"] == "done", told
    rows = bench.ask(f"/api/runs/{told['id']}/rows?limit=1000")["rows"]
    seen: set[str] = set()
    for row in range(min(12, len(rows))):
        match = bench.ask(f"/api/runs/{told['id']}/matches/{row}")
        events = match["answer"]["events"]
        taken = [one for one in events if one["taken"]]
        assert [one["variable"] for one in taken] == ["A", "B"]
        assert taken[0]["why"] == "A.price > 3"
        assert taken[1]["why"] == "B.price > A.price"
        assert len({one["event"]["symbol"] for one in events}) == 1
        seen |= {one["why"] for one in events if not one["taken"]}
    assert "as B, B.price > A.price does not hold" in " ".join(seen)
    assert bench.send(f"/api/runs/{told['id']}/matches/{len(rows)}")[0] == 404
    assert bench.send(f"/api/runs/{told['id']}/matches/-1")[0] == 400


def test_a_set_of_matches_tells_of_the_events_of_all_of_them(bench: Bench) -> None:
    text = MATCHES.replace("SEQ(view A, buy B)", "SEQ(view A, buy B) AND view A")
    told = bench.run(text)
    assert told["status"] == "done", told
    rows = bench.ask(f"/api/runs/{told['id']}/rows?limit=1000")["rows"]
    both = 0
    for row in range(min(12, len(rows))):
        events = bench.ask(f"/api/runs/{told['id']}/matches/{row}")["answer"]["events"]
        taken = [(one["variable"], one["why"]) for one in events if one["taken"]]
        assert ("B", "B.price > A.price") in taken
        assert {why for name, why in taken if name != "B"} == {"A.price > 3"}
        both += sum(name == "A, A" for name, _ in taken)
    assert both


def test_why_not_counts_the_steps(bench: Bench) -> None:
    told = bench.run("RETURN COUNT(*) PATTERN SEQ(view A, sell B) WITHIN 1 minute", why=True)
    why = told["answer"]["why"]
    assert [step["count"] for step in why["steps"]][-1] == 0
    assert "No event has the type `sell`." in why["sentences"]


def test_a_query_that_fails_says_where(bench: Bench) -> None:
    told = bench.run("RETURN COUNT(*) PATTERN buy B WHERE B.prise > 5")
    assert told["status"] == "failed"
    assert "E201" in told["answer"]["message"]
    assert "^^^^^" in told["answer"]["message"]


def cells_of(data: bytes) -> dict[int, tuple[int, int]]:
    (count,) = struct.unpack_from("<I", data)
    cells = struct.unpack_from(f"<{count}I", data, 4)
    counts = struct.unpack_from(f"<{count}I", data, 4 + 4 * count)
    return {cell: (counts[n], data[4 + 8 * count + n]) for n, cell in enumerate(cells)}


def test_tiles_of_every_level_have_all_events(bench: Bench) -> None:
    told = bench.run(MATCHES)
    asked = {"data": "events", "key": "symbol", "run": told["id"]}
    made = bench.ask("/api/timelines", asked)
    about = made["timeline"]
    assert (about["events"], len(about["lanes"]), sorted(about["types"])) == (
        200,
        3,
        ["buy", "view"],
    )
    for level in (0, 1, 3):
        tiles = [
            cells_of(bench.send(f"/api/timelines/{made['id']}/{level}/{place}")[2])
            for place in range(1 << level)
        ]
        assert sum(count for tile in tiles for count, _ in tile.values()) == 200
        lanes = {cell // about["bins"] for tile in tiles for cell in tile}
        assert lanes == {0, 1, 2}
    assert bench.send(f"/api/timelines/{made['id']}/1/2")[0] == 404
    spans = made["spans"]["spans"]
    assert len(spans) == told["answer"]["rows"]
    assert {span[2] for span in spans} <= set(about["lanes"])
    assert all(about["start"] <= span[0] <= span[1] < about["end"] for span in spans)


def test_a_replay_has_the_rows_of_a_run_also_across_a_stop(bench: Bench) -> None:
    wanted = bench.run(COUNTS)["answer"]["rows"]
    live = {"text": COUNTS, "data": "events", "watermark": "1 second"}
    assert live_rows(bench, live | {"speed": 0})[0] == wanted
    first = bench.ask("/api/live", live | {"speed": 30})
    while bench.ask(f"/api/runs/{first['id']}")["events"] < 60:
        time.sleep(0.05)
    stopped = bench.ask(f"/api/live/{first['id']}/stop", {})
    assert stopped["status"] == "done"
    assert not stopped["answer"]["ended"]
    assert 60 <= stopped["answer"]["events"] < 200
    rows, events = live_rows(bench, live | {"speed": 0, "state": first["id"]})
    assert events + stopped["answer"]["events"] == 200
    assert rows + stopped["answer"]["rows"] == wanted


def test_live_queries_are_few_and_runs_do_not_wait_for_them(bench: Bench) -> None:
    slow = {"text": COUNTS, "data": "events", "speed": 0.01}
    begun = [bench.ask("/api/live", slow)["id"] for _ in range(4)]
    assert bench.send("/api/live", slow)[0] == 429
    assert bench.run(COUNTS)["status"] == "done"
    for one in begun:
        assert bench.ask(f"/api/runs/{one}", method="DELETE")["status"] == "cancelled"


def live_rows(bench: Bench, body: dict[str, Any]) -> tuple[int, int]:
    told = bench.ask("/api/live", body)
    data = bench.send(f"/api/live/{told['id']}/events")[2]
    messages = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: ")]
    assert messages[-1]["status"] == "done", messages[-1]
    rows = sum(len(message.get("batch", [])) for message in messages)
    assert rows == messages[-1]["answer"]["rows"]
    return rows, messages[-1]["answer"]["events"]


def test_a_run_is_cancelled(tmp_path: Path) -> None:
    write_events(tmp_path, 4_000)
    settings = settings_of(tmp_path / "events.parquet", limits=Limits(rows=10**9, seconds=120))
    with serving(settings) as bench:
        # 2 to the power of thousands of matches: it ends by the limit of bytes, or never.
        told = bench.ask("/api/runs", {"text": "RETURN MATCHES PATTERN view A+", "data": "events"})
        begun = time.monotonic()
        gone = bench.ask(f"/api/runs/{told['id']}", method="DELETE")
        assert gone["status"] == "cancelled"
        assert time.monotonic() - begun < 10
        assert bench.run(COUNTS)["status"] == "done"


def test_limits_of_rows_and_seconds(tmp_path: Path) -> None:
    write_events(tmp_path, 4_000)
    settings = settings_of(tmp_path / "events.parquet", limits=Limits(rows=7, seconds=60))
    with serving(settings) as bench:
        told = bench.run(MATCHES)
        assert (told["answer"]["rows"], told["answer"]["more"]) == (7, True)
    settings = settings_of(tmp_path / "events.parquet", limits=Limits(rows=10**9, seconds=0.2))
    with serving(settings) as bench:
        told = bench.run("RETURN MATCHES PATTERN view A+")
        assert told["status"] == "failed"
        assert "the limit of this workbench" in told["answer"]["message"]
