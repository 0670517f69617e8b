"""`cepheid mcp`, asked by the client of the SDK over standard input and output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcp import Client, StdioServerParameters
from pyarrow import parquet
from tests.interfaces.program import PROGRAM

from cepheid.errors import DataError
from cepheid.interfaces.assistant.named_sets import NamedSets
from cepheid.interfaces.assistant.tasks import Limits, Task, do
from cepheid.interfaces.cli_input import WrongUseError
from cepheid.interfaces.data_sets import FILE, Columns, DataSet
from cepheid.interfaces.plain_values import ITEMS_MAX, TEXT_MAX, plain_value

HOSTILE = "x\x1b[2J\u202e<script>"
EVENTS = pa.table(
    {
        "ts": pa.array(range(1, 9), pa.timestamp("us")),
        "type": ["A", "B", "A", "C", "A", "B", "A", "A"],
        "k": ["u", "u", "v", "v", "u", "v", HOSTILE, "u"],
        "x": [1, 2, 3, 4, 5, 6, 7, 8],
    }
)
Call = Callable[..., Awaitable[Any]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "events"
    (inside / "more").mkdir(parents=True)
    parquet.write_table(EVENTS, inside / "log.parquet")
    parquet.write_table(EVENTS, inside / "more" / "later.parquet")
    parquet.write_table(EVENTS, tmp_path / "secret.parquet")
    (inside / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    return inside


def talk(words: list[str], conversation: Callable[[Call], Awaitable[None]]) -> None:
    """Start a server, let a client talk to it, and end it."""

    async def whole() -> None:
        parameters = StdioServerParameters(command=str(PROGRAM), args=["mcp", *words])
        async with Client(parameters, read_timeout_seconds=100) as client:
            listed = await client.list_tools()
            names = {tool.name for tool in listed.tools}
            wanted = {"check", "explain", "run", "why_not", "sample", "schema", "discover"}
            assert names == wanted | {"data_sets"}
            assert all(
                tool.annotations and tool.annotations.read_only_hint for tool in listed.tools
            )

            async def call(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result
                return result.structured_content

            await conversation(call)

    asyncio.run(whole())


def test_an_assistant_writes_a_query(folder: Path) -> None:
    async def conversation(call: Call) -> None:
        found = await call("data_sets")
        assert [one["name"] for one in found["data_sets"]] == [
            "events/log.parquet",
            "events/more/later.parquet",
        ]
        data = "events/log.parquet"
        columns = (await call("schema", data=data))["columns"]
        assert [one["name"] for one in columns] == ["ts", "type", "k", "x"]
        assert columns[1]["frequent_values"][0] == "A"
        wrong = "RETURN k, COUNT(*) PATTERN SEQ(A a, B b) WHERE [k] AND a.y > 0 GROUP-BY k"
        checked = await call("check", query=wrong, data=data)
        assert checked["ok"] is False
        assert checked["findings"][0]["code"] == "E201"
        assert (checked["findings"][0]["line"], checked["findings"][0]["column"]) == (1, 58)
        right = wrong.replace("a.y", "a.x")
        assert (await call("check", query=right, data=data))["ok"] is True
        assert "plan  count by k" in (await call("explain", query=right, data=data))["plan"]
        answer = await call("run", query=right, data=data)
        assert answer["rows"] == [{"k": "u", "count": 1.0}, {"k": "v", "count": 1.0}]
        assert (answer["total_rows"], answer["more"]) == (2, False)
        none = "PATTERN SEQ(A a, B b, C c) WHERE [k]"
        assert "No " in (await call("why_not", query=none, data=data))["text"]

    talk([str(folder)], conversation)


def test_limits_and_what_is_refused(folder: Path) -> None:
    async def conversation(call: Call) -> None:
        data = "events/log.parquet"
        answer = await call("run", query="PATTERN A+", data=data, rows=1000)
        assert len(answer["rows"]) == 3
        assert answer["more"] is True
        sample = await call("sample", data=data, rows=1)
        assert len(sample["rows"]) == 1
        for name in ("../secret.parquet", "events/link.parquet", "/etc/passwd", "events/../x"):
            refused = await call("sample", data=name)
            assert refused["ok"] is False
            assert refused["diagnostics"][0]["code"] == "E501"
        mistaken = await call("run", query="PATTERNN A", data=data)
        assert "did you mean `PATTERN`?" in mistaken["text"]

    talk([str(folder), "--rows", "3"], conversation)


def test_a_task_that_takes_too_long_is_stopped(folder: Path) -> None:
    many = pa.table({"ts": range(40), "type": ["A"] * 40, "x": range(40)})
    parquet.write_table(many, folder / "many.parquet")

    async def conversation(call: Call) -> None:
        # All of the 2^40 matches are built, for the condition on whole matches.
        slow = "RETURN COUNT(*) PATTERN A a+ WHERE SUM(a.x) < 0"
        stopped = await call("run", query=slow, data="events/many.parquet")
        assert stopped["ok"] is False
        assert stopped["text"] == "the task took more than 1 s and was stopped"

    talk([str(folder), "--seconds", "1"], conversation)


def task(tool: str, path: Path, **more: Any) -> dict[str, Any]:
    return do(Task(tool=tool, data=DataSet("log", FILE, str(path)), **more))


def test_values_are_plain(folder: Path) -> None:
    text = f"SELECT k FROM s WHERE k = '{HOSTILE}'"
    answer = task("run", folder / "log.parquet", text=text)
    assert answer["rows"] == [{"k": "x\\x1b[2J\\u202e<script>"}]
    sample = task("sample", folder / "log.parquet", limits=Limits(rows=7))
    assert "\x1b" not in str(sample)


def test_the_bytes_of_an_answer(folder: Path) -> None:
    answer = task("sample", folder / "log.parquet", limits=Limits(bytes=200))
    assert 0 < len(answer["rows"]) < 8
    assert answer["more"] is True


def test_discovery(folder: Path) -> None:
    options = {"key": "k", "support": 0.1, "confidence": 0.5}
    answer = task("discover", folder / "log.parquet", options=options)
    assert answer["ok"] is True
    assert "rule" in answer["columns"]
    assert answer["search"]


def test_columns_of_a_call(folder: Path) -> None:
    columns = Columns(time="x", type="type")
    answer = task("run", folder / "log.parquet", text="RETURN COUNT(*) PATTERN C", columns=columns)
    assert answer["rows"] == [{"count": 1}]
    missing = task("run", folder / "log.parquet", text="PATTERN C", columns=Columns(time="when"))
    assert missing["ok"] is False


def test_a_join_takes_streams(folder: Path) -> None:
    log = DataSet("log", FILE, str(folder / "log.parquet"))
    text = "SELECT a.x, b.x AS y FROM l a JOIN r b ON a.k = b.k AND a.x < b.x WINDOW 3 us"
    answer = do(Task(tool="run", text=text, streams={"l": log, "r": log}))
    assert answer["ok"] is True
    assert {"x": 1, "y": 2} in answer["rows"]


@pytest.mark.parametrize("tool", ["check", "explain", "run"])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("  ", "E101"),
        (
            "SELECT n OVER w FROM s WINDOW w AS (ORDER BY ts MEASURES COUNT(*) AS n "
            "ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING PATTERN (A))",
            "E404",
        ),
    ],
)
def test_check_says_what_run_says(folder: Path, tool: str, text: str, code: str) -> None:
    answer = task(tool, folder / "log.parquet", text=text)
    assert answer["ok"] is False
    found = answer.get("findings") or answer["diagnostics"]
    assert [one["code"] for one in found] == [code]


def test_a_query_may_name_its_only_stream(folder: Path) -> None:
    log = DataSet("log", FILE, str(folder / "log.parquet"))
    answer = do(Task(tool="run", text="SELECT x FROM l WHERE x > 7", streams={"l": log}))
    assert answer["rows"] == [{"x": 8}]


def test_a_defect_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        message = "odd\x1b\nmore"
        raise ValueError(message)

    monkeypatch.setattr("cepheid.interfaces.assistant.tasks.sample_of", broken)
    answer = task("sample", folder / "log.parquet")
    assert answer["ok"] is False
    assert answer["text"] == "the task failed, by a defect: ValueError: odd\\x1b"


def test_columns_of_lists(tmp_path: Path) -> None:
    table = pa.table({"ts": [1, 2], "type": ["A", "B"], "items": [["A"], ["B"]]})
    parquet.write_table(table, tmp_path / "log.parquet")
    columns = Columns("ts", "items", "us", None)
    answer = task("run", tmp_path / "log.parquet", text="PATTERN SEQ(A, B)", columns=columns)
    assert answer["diagnostics"][0]["code"] == "E216"
    options = {"key": "items"}
    answer = task("discover", tmp_path / "log.parquet", options=options)
    assert answer["diagnostics"][0]["code"] == "E595"
    answer = task("discover", tmp_path / "log.parquet", options={"key": "ts"}, columns=columns)
    assert answer["diagnostics"][0]["code"] == "E216"


def test_folders_of_one_format_are_a_set(tmp_path: Path) -> None:
    for day in ("1", "2"):
        parquet.write_table(EVENTS, tmp_path / f"day{day}.parquet")
    found = NamedSets([str(tmp_path)]).all()
    assert [one.kind for one in found.values()] == ["folder", "file", "file"]
    (tmp_path / "link.parquet").symlink_to("/etc/hostname")
    assert "folder" not in [one.kind for one in NamedSets([str(tmp_path)]).all().values()]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="no such file or folder"):
        NamedSets([str(tmp_path / "none")])
    with pytest.raises(DataError, match="no data set `a`"):
        NamedSets([str(tmp_path)]).find("a")


def test_long_values_are_cut() -> None:
    assert len(plain_value("a" * 10_000)) == TEXT_MAX + 1
    assert plain_value(list(range(ITEMS_MAX + 5)))[-1] == "… 5 more"
    assert plain_value([b"\x00" * 100, float("inf"), float("-inf")])[1:] == ["inf", "-inf"]
