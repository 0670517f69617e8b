"""Rules as data: what files hold them, what they say, and that a bad one is refused alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from tests.interfaces.program import run

import cepheid
from cepheid.interfaces.rule import Rule
from cepheid.interfaces.rule_parameters import holes_in, read_parameters, variants_of
from cepheid.interfaces.rule_queries import EventColumns, ready_rules
from cepheid.interfaces.rules import RulesRead, read_rules
from cepheid.plans.limits import Limit

AB = "RETURN COUNT(*) PATTERN SEQ(A, B)"
AC = "RETURN COUNT(*) PATTERN SEQ(A, C)"
MINUTE = 60_000_000


def codes(read: RulesRead) -> list[tuple[str, list[str]]]:
    return [(error.file, [d.code for d in error.diagnostics]) for error in read.refused]


# ---------------------------------------------------------------------------------------
# Files


def test_rules_come_from_a_folder_or_a_table(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    (folder / "more").mkdir(parents=True)
    (folder / "ab.cq").write_text(AB)
    (folder / "more" / "ac.cq").write_text(AC)
    (folder / "notes.txt").write_text("no rule")
    found = read_rules(folder)
    assert found == RulesRead({"ab": Rule("ab", AB), "more/ac": Rule("more/ac", AC)})
    assert read_rules(folder / "ab.cq") == RulesRead({"ab": Rule("ab", AB)})
    table = pa.table({"name": ["ab", "ac"], "query": [AB, AC]})
    csv.write_csv(table, tmp_path / "rules.csv")
    parquet.write_table(table, tmp_path / "rules.parquet")
    feather.write_feather(table, tmp_path / "rules.arrow")
    (tmp_path / "rules.jsonl").write_text(f'{{"name": "ab", "query": "{AB}"}}\n')
    for file in ("rules.csv", "rules.parquet", "rules.arrow"):
        assert read_rules(tmp_path / file).rules == {"ab": Rule("ab", AB), "ac": Rule("ac", AC)}
    assert list(read_rules(tmp_path / "rules.jsonl").rules) == ["ab"]


FULL = Rule(
    "big",
    "RETURN COUNT(*) PATTERN A WHERE A.x > {limit}",
    owner="desk",
    tags=("size", "shop"),
    severity="high",
    enabled=False,
    rate_limit=Limit(10, 60 * MINUTE, ("user", "shop")),
    deduplicate=Limit(1, 10 * MINUTE, ("user",)),
    parameters=(("limit", ("100", "200")),),
)
FIELDS = {
    "owner": "desk",
    "tags": "size, shop",
    "severity": "High",
    "enabled": "off",
    "rate_limit": "10 per 1 hour by user, shop",
    "deduplicate": "user within 10 minutes",
    "parameters": "limit=100,200",
}


def test_all_files_say_the_same_of_a_rule(tmp_path: Path) -> None:
    header = "".join(f"-- @{name}: {value}\n" for name, value in FIELDS.items())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "big.cq").write_text(header + FULL.query)
    read = read_rules(tmp_path / "folder")
    assert read == RulesRead({"big": msgspec.structs.replace(FULL, query=header + FULL.query)})
    table = pa.table({n: [v] for n, v in ({"name": "big", "query": FULL.query} | FIELDS).items()})
    csv.write_csv(table, tmp_path / "rules.csv")
    assert read_rules(tmp_path / "rules.csv") == RulesRead({"big": FULL})
    (tmp_path / "rules.yaml").write_text(
        "- name: big\n  query: RETURN COUNT(*) PATTERN A WHERE A.x > {limit}\n"
        "  owner: desk\n  tags: [size, shop]\n  severity: high\n  enabled: off\n"
        "  rate_limit: 10 per 1 hour by user, shop\n  deduplicate: user within 10 minutes\n"
        "  parameters: {limit: 100..200:100}\n"
    )
    pytest.importorskip("yaml")
    assert read_rules(tmp_path / "rules.yaml") == RulesRead({"big": FULL})


def test_yaml_holds_one_rule_several_or_documents(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "one.yaml").write_text(f"query: {AB}\nowner: me\n")
    (tmp_path / "list.yml").write_text(f"rules:\n- name: x\n  query: {AB}\n")
    (tmp_path / "more.yaml").write_text(f"name: y\nquery: {AB}\n---\nname: 7\nquery: {AC}\n")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    found = read_rules(tmp_path)
    assert list(found.rules) == ["x", "y", "7", "one"]
    assert found.rules["one"].owner == "me"
    assert not found.refused


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1", "1:5"),
        ("name: a\nname: b\n", "2:1"),
        ("name: a\n\tquery: b\n", "2:1"),
        ("query: RETURN a: b", "1:16"),
        ("query: !!python/object/apply:os.system ['true']", "1:8"),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    (told,) = read_rules(file).refused
    assert told.diagnostics[0].code == "E533"
    assert f"--> {file}:{place}" in str(told)


@pytest.mark.parametrize("text", ["7", "- 7", "- [a]", "x: 2026-13-45"])
def test_yaml_that_is_no_rule_is_refused(tmp_path: Path, text: str) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "rules.yaml").write_text(text)
    (told,) = read_rules(tmp_path).refused
    assert told.diagnostics[0].code in ("E532", "E533")


def test_a_rule_of_sigma_is_to_be_translated_first(tmp_path: Path) -> None:
    (tmp_path / "whoami.yml").write_text("title: Whoami\ndetection: {condition: selection}\n")
    (told,) = read_rules(tmp_path).refused
    (only,) = told.diagnostics
    assert (only.code, "is a rule of Sigma" in only.message) == ("E532", True)
    assert "cepheid translate --from sigma" in only.helps[0]


def test_without_pyyaml_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.cq").write_text(AB)
    (tmp_path / "b.yaml").write_text(f"query: {AC}")
    found = read_rules(tmp_path)
    assert list(found.rules) == ["a"]
    (told,) = found.refused
    assert told.diagnostics[0].code == "E536"
    assert told.diagnostics[0].helps == ("install it: `pip install 'cepheid[yaml]'`",)


# ---------------------------------------------------------------------------------------
# Mistakes


def test_a_table_without_queries_is_rejected(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"name": ["a"]}), tmp_path / "rules.parquet")
    with pytest.raises(cepheid.DataError, match="has no column `query`"):
        read_rules(tmp_path / "rules.parquet")
    (tmp_path / "none").mkdir()
    with pytest.raises(cepheid.DataError, match="has no rules"):
        read_rules(tmp_path / "none")
    (tmp_path / "none" / "a.eql").write_text("any where true")
    for place in (tmp_path / "none", tmp_path / "none" / "a.eql"):
        with pytest.raises(cepheid.DataError, match="cepheid translate --from eql"):
            read_rules(place)


@pytest.mark.parametrize(
    ("columns", "kept", "refused"),
    [
        ({"name": ["a", "a", "b"], "query": [AB, AC, AC]}, ["a", "b"], [("a", ["E532"])]),
        ({"name": ["a", "b"], "query": [None, AB]}, ["b"], [("a", ["E532"])]),
        ({"name": [None, "b"], "query": [AB, AC]}, ["b"], [("", ["E532"])]),
        (
            {"name": ["a"], "query": [AB], "severity": ["hihg"], "enabled": ["maybe"]},
            [],
            [("a", ["E532", "E532"])],
        ),
        ({"name": ["a"], "query": [AB], "rate_limit": ["10 an hour"]}, [], [("a", ["E535"])]),
        ({"name": ["a"], "query": [AB], "rate_limit": ["0 per hour"]}, [], [("a", ["E535"])]),
        ({"name": ["a"], "query": [AB], "rate_limit": ["1 per 0 s"]}, [], [("a", ["E535"])]),
        ({"name": ["a"], "query": [AB], "rate_limit": ["1 per 1 moon"]}, [], [("a", ["E535"])]),
        ({"name": ["a"], "query": [AB], "deduplicate": ["x"]}, [], [("a", ["E535"])]),
        ({"name": ["a"], "query": [AB], "parameters": ["x"]}, [], [("a", ["E534"])]),
        ({"name": ["a"], "query": [AB], "owner": [[1]]}, [], [("a", ["E532"])]),
        ({"name": ["a"], "query": [AB], "tags": [[1]]}, [], [("a", ["E532"])]),
    ],
)
def test_a_rule_with_a_mistake_is_refused_alone(
    tmp_path: Path, columns: dict[str, Any], kept: list[str], refused: list[tuple[str, list[str]]]
) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "rules.parquet")
    found = read_rules(tmp_path / "rules.parquet")
    assert list(found.rules) == kept
    assert codes(found) == refused


def test_an_unknown_field_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "a.cq").write_text(f"-- A comment: any.\n-- @rate_limt: 1 per 1 s\n{AB}")
    (tmp_path / "b.cq").write_bytes(b"\xff")
    read = read_rules(tmp_path)
    assert codes(read) == [("a", ["E532"]), ("b", ["E502"])]
    assert "did you mean `rate_limit`?" in str(read.refused[0])


# ---------------------------------------------------------------------------------------
# Parameters


def test_parameters_become_literals() -> None:
    query = "RETURN COUNT(*) PATTERN A{{n}} WHERE A.x>{x}-{x} AND A.s={s} AND A.t='{x}' -- {x}"
    assert [name for name, _ in holes_in(query)] == ["n", "x", "x", "s"]
    parameters = read_parameters({"n": 2, "x": [1.5, -3], "s": "it's -- not"})
    found = variants_of("r", query, parameters)
    assert [one.name for one in found] == ["r[x=1.5]", "r[x=-3]"]
    assert found[1].query == (
        "RETURN COUNT(*) PATTERN A{ 2 } WHERE A.x> (-3) - (-3)  AND A.s= 'it''s -- not'"
        "  AND A.t='{x}' -- {x}"
    ).replace("'it''s -- not'  AND", "'it''s -- not' AND").replace("(-3)  AND", "(-3) AND")
    cepheid.query(found[0].query)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x=1,2,3", ("1", "2", "3")),
        ("x=100..300:100", ("100", "200", "300")),
        ("x=0.1..0.3:0.1", ("0.1", "0.2", "0.3")),
        ("x=-1..1", ("(-1)", "0", "1")),
        ("x=1..2,5", ("1", "2", "5")),
        ("x='1..2',\"a,b\", c d ", ("'1..2'", "'a,b'", "'c d'")),
        ("x=true,1,1", ("TRUE", "1")),
        ("x=1e3", ("1e3",)),
    ],
)
def test_values_of_texts(text: str, found: tuple[str, ...]) -> None:
    assert read_parameters(text) == (("x", found),)


@pytest.mark.parametrize(
    "given",
    [
        "x",
        "x=",
        "x=1,,2",
        "x='a",
        "1x=1",
        "x=3..1",
        "x=1..2:0",
        "x=1..100000",
        {"x": []},
        {"x": None},
        {"x": float("nan")},
        {"x y": 1},
        [1],
    ],
)
def test_values_that_are_none(given: object) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_parameters(given)


def test_a_parameter_without_value_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.cq").write_text("RETURN COUNT(*) PATTERN A WHERE A.x > {limit}")
    (tmp_path / "b.cq").write_text(f"-- @parameters: limit=1\n{AB}")
    (told, unused) = ready_rules(tmp_path, EventColumns()).refused
    assert str(told).splitlines() == [
        "error[E534]: the parameter `{limit}` has no value",
        " --> a:1:39",
        "  |",
        "1 | RETURN COUNT(*) PATTERN A WHERE A.x > {limit}",
        "  |                                       ^^^^^^^",
        "  = help: give the rule values: `parameters: {limit: [1, 2]}`",
        "  = help: or `--set limit=1,2`",
    ]
    assert "has values for `limit`, which is not in its query" in str(unused)
    given = read_parameters("limit=1,2")
    assert list(ready_rules(tmp_path, EventColumns(), given).queries) == [
        "a[limit=1]",
        "a[limit=2]",
    ]
    with pytest.raises(cepheid.DataError, match="no rule has a parameter `limits`"):
        ready_rules(tmp_path, EventColumns(), read_parameters("limits=1"))


def test_too_many_variants_are_refused() -> None:
    numbers = tuple(map(str, range(40)))
    with pytest.raises(cepheid.DataError, match="1,600 variants"):
        variants_of("r", "{x} {y}", (("x", numbers), ("y", numbers)))


# ---------------------------------------------------------------------------------------
# Commands


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "ab.cq").write_text(AB)
    (folder / "wrong.cq").write_text("RETURN COUNT(*) PATTERN SEQ(A, ")
    (folder / "other.cq").write_text("RETURN COUNT(*) PATTERN A WHERE A.nothing > 3")
    (folder / "silent.cq").write_text(f"-- @enabled: false\n{AC}")
    (folder / "swept.cq").write_text(
        "-- @parameters: x=1,2\nRETURN COUNT(*) PATTERN A WHERE A.x > {x}"
    )
    events = pa.table({"ts": [1, 2, 3], "type": ["A", "A", "B"], "x": [1.0, 2.0, 3.0]})
    parquet.write_table(events, tmp_path / "events.parquet")
    return folder


def test_check_tells_of_every_rule(rules: Path) -> None:
    done = run("check", "--rules", rules)
    assert done.returncode == 1
    assert done.stdout == "ab: ok\nother: ok\nsilent: ok, off\nswept: ok, 2 variants\n"
    assert "--> wrong:1:31" in done.stderr
    assert done.stderr.endswith("1 of 5 rules is refused: wrong\n")
    done = run("check", "--rules", rules, "--input", rules.parent / "events.parquet")
    assert "--> other:1:35" in done.stderr
    assert done.stderr.endswith("2 of 5 rules are refused: wrong, other\n")
    assert "other: ok" not in done.stdout
    schema = run("check", "--rules", rules, "--schema", rules.parent / "events.parquet")
    assert schema.stderr.endswith("2 of 5 rules are refused: other, wrong\n")
    (rules / "wrong.cq").unlink()
    assert run("check", "--rules", rules).returncode == 0


@pytest.mark.parametrize("words", [("-q", AB), ("a.cq",)])
def test_check_takes_rules_or_queries(rules: Path, words: tuple[str, ...]) -> None:
    done = run("check", "--rules", rules, *words)
    assert done.returncode == 2


def test_rules_run_without_those_that_are_refused(rules: Path) -> None:
    events = rules.parent / "events.parquet"
    done = run("run", "--rules", rules, "--input", events, "--format", "csv")
    assert done.returncode == 1
    assert done.stdout == '"query","count"\n"ab",2\n"swept[x=1]",1\n'
    assert "error[E101]" in done.stderr
    assert "--> other:1:35" in done.stderr
    assert done.stderr.endswith("2 of 4 rules are refused: wrong, other\n")
    done = run("explain", "--rules", rules)
    assert done.returncode == 1
    assert done.stdout.startswith("workload  4 queries")


def test_rules_that_are_all_refused_or_off_end_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.cq").write_text("RETURN")
    done = run("explain", "--rules", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("1 of 1 rule is refused: a\n")
    (tmp_path / "a.cq").write_text(f"-- @enabled: no\n{AB}")
    done = run("explain", "--rules", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[E532]: all rules of" in done.stderr
