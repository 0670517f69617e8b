"""The first mistakes of people who are new: the command line answers with its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.interfaces.program import run

import cepheid

if TYPE_CHECKING:
    from pathlib import Path

CLICKS = pa.table(
    {
        "ts": [1, 2, 3, 4],
        "event_type": ["product", "addcart", "product", "purchase"],
        "session": [1, 1, 2, 1],
    }
)
FUNNEL = "RETURN COUNT(*) PATTERN SEQ(product, addcart, purchase)"


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Write the clicks to a file."""
    path = tmp_path / "clicks.parquet"
    parquet.write_table(CLICKS, path)
    return path


def test_a_missing_type_column_is_no_answer() -> None:
    with pytest.raises(cepheid.BindError, match=r"E216.*no type column `type`"):
        cepheid.query(FUNNEL).run(CLICKS)
    named = cepheid.query(FUNNEL, type="event_type")
    assert named.run(CLICKS)["count"].to_pylist() == [1]


def test_a_named_type_column_must_be_there() -> None:
    with pytest.raises(cepheid.BindError, match=r"E216.*no type column `kind`"):
        cepheid.query("RETURN COUNT(*) PATTERN product+", type="kind").run(CLICKS)


def test_events_may_be_of_one_type() -> None:
    untyped = CLICKS.drop_columns(["event_type"])
    one = cepheid.query("RETURN COUNT(*) PATTERN Click+").run(untyped)
    pairs = cepheid.query("RETURN COUNT(*) PATTERN SEQ(a, b)", type=None).run(untyped)
    assert [one["count"][0].as_py(), pairs["count"][0].as_py()] == [15, 6]
    # Types that there are do not count then.
    typed = untyped.append_column("type", pa.array(["a", "a", "a", "b"]))
    every = cepheid.workload([cepheid.query("RETURN COUNT(*) PATTERN SEQ(a, b)", type=None)])
    assert every.run(typed)["count"].to_pylist() == [6]


def test_the_time_of_examples_may_have_another_name() -> None:
    renamed = CLICKS.rename_columns(["when", "type", "session"])
    with pytest.raises(cepheid.BindError, match="the times are in `when`"):
        cepheid.query("RETURN p.ts PATTERN purchase p", time="when").run(renamed)


def test_patterns_of_flink_cep_have_a_table(tmp_path: Path) -> None:
    done = run("translate", "--from", "flink-cep", tmp_path)
    assert "docs/coming-from.md" in done.stderr


def test_the_command_line_speaks_of_its_options(clicks: Path) -> None:
    done = run("run", "-", "--input", clicks, stdin=FUNNEL)
    assert done.returncode == 1
    assert "name it: `--type event_type`" in done.stderr
    assert "say so: `--type ''`" in done.stderr
    assert "cepheid.query" not in done.stderr
    options = ("run", "-", "--input", clicks, "--format", "csv", "--type")
    named = run(*options, "event_type", stdin=FUNNEL)
    assert named.stdout.splitlines()[1:] == ["1"], named.stderr
    every = run(*options, "", stdin=FUNNEL)
    assert every.stdout.splitlines()[1:] == ["4"], every.stderr


def test_the_command_line_names_the_option_that_is_wrong(clicks: Path) -> None:
    done = run("run", "-", "--input", clicks, "--time-unit", "weeks", stdin=FUNNEL)
    assert done.stderr == "cepheid: --time-unit is one of ns, us, ms, s, not 'weeks'\n"


def test_the_command_line_names_the_time_option(clicks: Path) -> None:
    done = run("check", "-", "--schema", clicks, "--time", "when", stdin="PATTERN product+")
    assert "name it: `--time ts`" in done.stderr


CALLED = "no event has the type `Product`: did you mean `product`?"
CASED = "RETURN COUNT(*) PATTERN SEQ(Product, addcart, purchase)"


def test_a_type_that_no_event_has_is_told(clicks: Path, tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path / "store")
    store.append(CLICKS)
    reader = pa.RecordBatchReader.from_batches(CLICKS.schema, CLICKS.to_batches(2))
    cased = cepheid.query(CASED, type="event_type")
    for events in (CLICKS, CLICKS.to_pandas(), reader, str(clicks), store):
        with pytest.warns(UserWarning, match=CALLED.replace("?", r"\?")):
            cased.run(events)
    with pytest.warns(UserWarning, match="no event has the type `Product`"):
        cased.run(store, strategy="index")
    with pytest.warns(UserWarning, match="no event has the type `Product`"):
        cepheid.workload({"cased": cased}).run(CLICKS)
    listing = cepheid.query("RETURN MATCHES PATTERN SEQ(Product, addcart)", type="event_type")
    with pytest.warns(UserWarning, match="no event has the type `Product`"):
        listing.matches(CLICKS).read_all()


def test_types_that_may_be_missing_are_told_if_another_is_near() -> None:
    quiet = "RETURN COUNT(*) PATTERN SEQ(product, NOT refund, addcart OR wish, purchase)"
    assert cepheid.query(quiet, type="event_type").run(CLICKS)["count"].to_pylist() == [1]
    near = "RETURN COUNT(*) PATTERN SEQ(product, NOT adcart, purchase)"
    with pytest.warns(UserWarning, match="type `adcart`: did you mean `addcart`"):
        cepheid.query(near, type="event_type").run(CLICKS)


def test_a_limit_that_was_reached_leaves_events_unread() -> None:
    text = "RETURN MATCHES PATTERN product OR Purchases LIMIT 1"
    assert len(cepheid.query(text, type="event_type").run(CLICKS)) == 1


def test_a_variable_that_is_a_type_is_told() -> None:
    with pytest.warns(UserWarning, match=r"write `SEQ\(product, addcart\)` \(W207\)"):
        cepheid.query("RETURN COUNT(*) PATTERN (product addcart)", type="event_type").run(CLICKS)


@pytest.mark.parametrize(
    ("factor", "unit"), [(1, "s"), (1000, "ms"), (10**9, "ns")], ids=["s", "ms", "ns"]
)
def test_times_that_look_like_another_unit_are_told(factor: int, unit: str) -> None:
    events = pa.table({"ts": [1_700_000_000 * factor, 1_700_000_600 * factor], "type": ["A", "B"]})
    text = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1 hour"
    with pytest.warns(UserWarning, match=f"time_unit='{unit}'.*W208") as caught:
        cepheid.query(text).run(events)
    assert len(caught) == 1
    assert "2023-11-14 22:13:20" in str(caught[0].message)
    assert cepheid.query(text, time_unit=unit).run(events)["count"].to_pylist() == [1]


@pytest.mark.parametrize(
    "times",
    [[1, 2], [0, 1_700_000_000], [1_700_000_000], [1_700_000_000_000_000, 1_700_000_001_000_000]],
    ids=["counters", "from zero", "one", "microseconds"],
)
def test_other_whole_numbers_are_as_they_are(times: list[int]) -> None:
    events = pa.table({"ts": times, "type": ["A"] * len(times)})
    assert len(cepheid.query("RETURN COUNT(*) PATTERN A+").run(events)) == 1


def test_the_command_line_tells_what_is_odd(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    seconds = pa.array([1_700_000_000, 1_700_000_001, 1_700_000_002, 1_700_000_003])
    csv.write_csv(CLICKS.set_column(0, "ts", seconds), path)
    for command in (("run", "-", "--format", "csv"), ("check", "-")):
        options = ("--input", path, "--type", "event_type")
        done = run(*command, *options, stdin=CASED)
        assert done.returncode == 0, done.stderr
        assert f"notice: {CALLED}" in done.stderr
        assert "`--time-unit s`" in done.stderr
        right = run(*command, *options, "--time-unit", "s", stdin=FUNNEL)
        assert right.stderr == ""


def test_the_command_line_reads_text_times_and_offers_a_format(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ts,type\n31/01/2026 10:00,A\n31/01/2026 10:05,B\n")
    options = ("run", "-q", "RETURN COUNT(*) PATTERN SEQ(A, B)", "--input", tmp_path / "e.csv")
    done = run(*options)
    assert done.returncode == 1
    assert (
        "error[E580]: the time `31/01/2026 10:00` in row 0 of `ts` is not ISO 8601" in done.stderr
    )
    assert "name its format: `--time-format '%d/%m/%Y %H:%M'`" in done.stderr
    named = run(*options, "--format", "csv", "--time-format", "%d/%m/%Y %H:%M")
    assert named.stdout.splitlines()[1:] == ["1"], named.stderr
    wrong = run(*options, "--time-format", "%H:%M")
    assert wrong.stderr.startswith("cepheid: --time-format `%H:%M` names no year: add %Y")
    assert wrong.returncode == 2
    store = tmp_path / "store"
    added = run("store", "append", store, tmp_path / "e.csv", "--time-format", "%d/%m/%Y %H:%M")
    assert added.stdout.startswith("2 events appended"), added.stderr


def test_a_query_and_its_file_are_told_apart(clicks: Path) -> None:
    done = run("run", FUNNEL, "--input", clicks, "--type", "event_type")
    assert done.stderr == f"cepheid: a query that is no file needs -q: -q '{FUNNEL}'\n"
    done = run("run", "-q", "funnel.cq", "--input", clicks)
    told = "-q takes the text of a query: name the file without it, as funnel.cq"
    assert done.stderr == f"cepheid: {told}\n"
    assert done.returncode == 2
    done = run("run", "--input", clicks, stdin=FUNNEL)
    assert "name a query file (- is standard input)" in done.stderr


@pytest.mark.parametrize(
    ("name", "mark", "told"),
    [
        ("a.csv", ";", "separated by `;`, not commas"),
        ("a.csv", "\t", "separated by tabs, not commas"),
        ("a.tsv", ",", "separated by commas, not tabs"),
    ],
)
def test_another_separator_is_told(tmp_path: Path, name: str, mark: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(f"ts{mark}type\n1{mark}A\n", encoding="utf-8")
    with pytest.raises(cepheid.DataError, match=told):
        cepheid.query("RETURN COUNT(*) PATTERN A").run(str(path))
    done = run("check", "-q", "RETURN COUNT(*) PATTERN A", "--schema", path)
    assert told in done.stderr


def test_a_format_of_another_language_is_told(clicks: Path) -> None:
    options = ("--input", clicks, "--time-format", "dd/MM/yyyy HH:mm")
    done = run("run", "-q", FUNNEL, *options)
    told = "--time-format `dd/MM/yyyy HH:mm` names no year: add %Y, as in '%Y-%m-%d %H:%M:%S'"
    assert done.stderr == f"cepheid: {told}\n"


def test_a_folder_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "rglob", refused)
    with pytest.raises(cepheid.DataError, match=r"E501.*Permission denied"):
        cepheid.query("RETURN COUNT(*) PATTERN A").run(str(tmp_path))


def test_a_live_query_may_be_text(tmp_path: Path) -> None:
    places = ("--source", tmp_path, "--sink", "-", "--checkpoint", tmp_path / "state")
    done = run("stream", "-q", "RETURN COUNT(*) PATTERN A -> B", *places)
    assert done.returncode == 1
    assert "--> query:1:27" in done.stderr
    assert "write `SEQ(A, B)`" in done.stderr


def test_a_run_tells_what_is_odd_about_the_query(clicks: Path) -> None:
    text = "RETURN COUNT(*) PATTERN product p WHERE p.session = NULL OR p.event_type = product"
    done = run("run", "-q", text, "--input", clicks, "--type", "event_type", "--format", "csv")
    # That the state would grow on a live stream does not matter.
    assert done.stderr.splitlines() == [
        "notice: a comparison with `NULL` is never true; write `p.session IS NULL` (W205)",
        "notice: `product` is read as the text 'product'; write 'product' (W204)",
    ]
    assert done.stdout.splitlines()[1:] == ["2"]
