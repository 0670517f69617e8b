"""Rules of Sigma: what they find by the specification, their queries find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.translate.sigma_judge import Event, finds

import cepheid
from cepheid.interfaces.rules import read_rules
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.sigma.mapping import with_mapping
from cepheid.translate.sigma.rules import translate_rules
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Outcome, Settings, SourceFile, Translated
from cepheid.translate.write import write_rules

TYPES = {"a": "text", "b": "text", "n": "integer", "f": "boolean"}
SETTINGS = Settings(types=TYPES)
COLUMNS: dict[str, pa.DataType] = {
    "ts": pa.int64(),
    "a": pa.string(),
    "b": pa.string(),
    "n": pa.int64(),
    "f": pa.bool_(),
}
SCHEMA = pa.schema(COLUMNS)


def translated(rule: dict[str, Any], settings: Settings = SETTINGS) -> Translated:
    (found,) = translate_rules([SourceFile("rule.yml", json.dumps(rule))], settings)
    return found


def rule_of(detection: dict[str, Any]) -> dict[str, Any]:
    return {"title": "t", "logsource": {"category": "c"}, "detection": detection}


def found_by(rule: Translated, events: list[Event]) -> list[int]:
    assert not rule.reasons, rule.reasons
    rows = [{"ts": n, **event} for n, event in enumerate(events)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    found: list[Any] = cepheid.query(rule.query).run(table).column("ts").to_pylist()
    return found


def agree(detection: dict[str, Any], events: list[Event]) -> list[int]:
    right = [n for n, event in enumerate(events) if finds(detection, event)]
    rule = translated(rule_of(detection))
    assert found_by(rule, events) == right, rule.query
    return right


def a(*values: str | None) -> list[Event]:
    return [{"a": value} for value in values]


B64 = "Y21kLmV4ZQ=="
"""`cmd.exe` in Base64."""

CASES: list[tuple[str, Any, list[Event], list[int]]] = [
    ("a", "cmd.exe", a("cmd.exe", "CMD.EXE", "cmd.exe ", None, "xcmd.exe"), [0, 1]),
    ("a|cased", "Cmd", a("cmd", "Cmd", "CMD"), [1]),
    ("a", "c?d*", a("cmd", "cd", "cXdef", "C?D"), [0, 2, 3]),
    ("a", r"c\?d\*", a("c?d*", "cxd*", "c?dd"), [0]),
    ("a", r"\\x", a("\\x", "\\\\x"), [0]),
    ("a", r"\x", a("\\x", "x"), [0]),
    ("a", r"x\\*", a("x\\abc", "x\\", "x*", "x\\*"), [0, 1, 3]),
    ("a", r"x\\\*", a("x\\abc", "x*", "x\\*"), [2]),
    ("a", r"\\\\x", a("\\x", "\\\\x"), [1]),
    ("a", "50%_", a("50%_", "50ab"), [0]),
    ("a", "it's", a("IT'S", "its"), [0]),
    ("a", "", a("", None, " "), [0]),
    ("a", "*", a("", None, "x"), [0, 2]),
    ("a", None, a("", None), [1]),
    ("a|contains", "mid", a("aMIDb", "mid", "m-id"), [0, 1]),
    ("a|contains|all", ["x", "y"], a("yx", "x", "xy"), [0, 2]),
    ("a|startswith", ["x", "y"], a("xa", "ya", "ax"), [0, 1]),
    ("a|endswith", r"\x.exe", a("c:\\X.exe", "x.exe"), [0]),
    ("a|contains", "\\Run\\", a("x\\run\\y", "\\Run*", "\\run\\"), [0, 2]),
    ("a|startswith", "x\\", a("x\\y", "x*", "x\\"), [0, 2]),
    ("a|re", "^[a-c]+$", a("abc", "ABC", "abcd", "abc\n"), [0, 3]),
    ("a|re|i", "^[a-c]+$", a("abc", "ABC", "abcd"), [0, 1]),
    ("a|re|m", "^b$", a("a\nb", "b", "ab"), [0, 1]),
    ("a|re|s", "a.b", a("a\nb", "axb"), [0, 1]),
    ("a|re", "a.b", a("a\nb", "axb"), [1]),
    ("a|cidr", ["10.0.0.0/8", "fe80::/10"], a("10.1.2.3", "11.0.0.1", "fe80::5", "x"), [0, 2]),
    ("a|base64", "cmd.exe", a(B64, "cmd.exe", "x" + B64), [0]),
    ("a|base64|contains", "cmd.exe", a(f"x{B64}y", "cmd.exe"), [0]),
    (
        "a|base64offset|contains",
        "cmd.exe",
        a("--Y21kLmV4Z", "NtZC5leG", "jbWQuZXhl", "zzz"),
        [0, 1, 2],
    ),
    ("a|wide|base64offset|contains", "ab", a("YQBiA", "EAYg", "hAGIA", "YWI"), [0, 1, 2]),
    ("a|windash|contains", " -e ", a("x -e y", "x /e y", "x \u2013e y", "x e y"), [0, 1, 2]),
    ("a|exists", True, a("", None), [0]),
    ("a|exists", False, a("", None), [1]),
    ("n|gt", 2, [{"n": 2}, {"n": 3}, {"n": None}], [1]),
    ("n|gte", 2, [{"n": 2}, {"n": 1}], [0]),
    ("n|lt", 2, [{"n": 2}, {"n": 1}], [1]),
    ("n|lte", 2.5, [{"n": 2}, {"n": 3}], [0]),
    ("n", 2, [{"n": 2}, {"n": 3}, {"n": None}], [0]),
    ("n", [1, 3], [{"n": 2}, {"n": 3}, {"n": 1}], [1, 2]),
    ("n", "1*", [{"n": 12}, {"n": 21}], [0]),
    ("f", True, [{"f": True}, {"f": False}, {"f": None}], [0]),
    ("f", "TRUE", [{"f": True}, {"f": False}], [0]),
    ("a|neq", "x", a("x", "y", None), [1, 2]),
    ("a|fieldref", "b", [{"a": "X", "b": "x"}, {"a": "x", "b": None}, {"a": "x", "b": "y"}], [0]),
    ("a|fieldref|startswith", "b", [{"a": "xy", "b": "X"}, {"a": "yx", "b": "x"}], [0]),
    ("a|fieldref|endswith", "b", [{"a": "xy", "b": "X"}, {"a": "yx", "b": "x"}], [1]),
    ("a|fieldref|contains", "b", [{"a": "axa", "b": "X"}, {"a": "ya", "b": "x"}], [0]),
]


@pytest.mark.parametrize(("key", "value", "events", "right"), CASES)
def test_a_field_and_its_modifiers(
    key: str, value: Any, events: list[Event], right: list[int]
) -> None:
    assert agree({"s": {key: value}, "condition": "s"}, events) == right
    others = [n for n in range(len(events)) if n not in right]
    assert agree({"s": {key: value}, "condition": "not s"}, events) == others


EVENTS = [{"a": x, "b": y} for x in ("p", "q", None) for y in ("p", "q", None)]


@pytest.mark.parametrize(
    ("condition", "right"),
    [
        ("s1", [0, 1, 2]),
        ("s1 and s2", [1]),
        ("s1 or s2", [0, 1, 2, 4, 7]),
        ("not s1 and not s2", [3, 5, 6, 8]),
        ("not (s1 or s2)", [3, 5, 6, 8]),
        ("s1 or s2 and not s1", [0, 1, 2, 4, 7]),
        ("1 of s*", [0, 1, 2, 4, 7]),
        ("all of s*", [1]),
        ("1 of them", [0, 1, 2, 4, 6, 7, 8]),
        ("all of them", []),
        ("not 1 of s*", [3, 5, 6, 8]),
        (["s1 and s2", "other"], [1, 6, 7, 8]),
    ],
)
def test_conditions(condition: Any, right: list[int]) -> None:
    detection = {"s1": {"a": "p"}, "s2": {"b": "q"}, "other": {"a": None}, "condition": condition}
    assert agree(detection, EVENTS) == right


def test_lists_of_maps_and_words_without_a_field() -> None:
    events: list[Event] = [
        {"a": "one", "b": None},
        {"a": None, "b": "xTWOx"},
        {"a": "on", "b": "e"},
    ]
    assert agree({"s": [{"a": "one"}, {"b": "*two*"}], "condition": "s"}, events) == [0, 1]
    assert agree({"s": ["ONE", "two"], "condition": "s"}, events) == [0, 1]
    assert agree({"s": {"|all": ["o", "n"]}, "condition": "s"}, events) == [0, 2]
    assert agree({"s": ["ONE"], "condition": "not s"}, events) == [1, 2]


TEXTS = st.text("aB\\*?%_'-/ \n", max_size=5)
FIELD = st.sampled_from(["a", "b"])
STRING_MODIFIERS = st.sampled_from(
    ["", "|contains", "|startswith", "|endswith", "|cased", "|contains|cased", "|contains|windash"]
)
ITEMS = st.one_of(
    st.tuples(
        st.tuples(FIELD, STRING_MODIFIERS).map("".join),
        st.one_of(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)),
    ),
    st.tuples(st.just("a|contains|all"), st.lists(TEXTS, min_size=2, max_size=3)),
    st.tuples(FIELD, st.none()),
    st.tuples(FIELD.map(lambda f: f + "|exists"), st.booleans()),
    st.tuples(st.sampled_from(["n", "n|gt", "n|lte"]), st.integers(-2, 2)),
    st.tuples(st.sampled_from(["a|fieldref", "a|fieldref|startswith"]), st.just("b")),
    st.tuples(FIELD.map(lambda f: f + "|re"), st.sampled_from(["^a", "B$", "a|B", "[^a]", "a.B"])),
)
SELECTIONS = st.one_of(
    st.lists(ITEMS, min_size=1, max_size=2).map(dict),
    st.lists(st.lists(ITEMS, min_size=1, max_size=2).map(dict), min_size=1, max_size=2),
    st.lists(st.text("aB-", min_size=1, max_size=2), min_size=1, max_size=2),
)
CONDITIONS = st.recursive(
    st.sampled_from(["s1", "s2", "1 of s*", "all of them"]),
    lambda inner: st.one_of(
        inner.map("not {}".format),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({' '.join(t)})"),
    ),
    max_leaves=4,
)
EVENT = st.fixed_dictionaries(
    {
        "a": st.none() | st.text("aAbB\\*?%_'-/ \n", max_size=5),
        "b": st.none() | TEXTS,
        "n": st.none() | st.integers(-2, 2),
    }
)


@given(SELECTIONS, SELECTIONS, CONDITIONS, st.lists(EVENT, min_size=1, max_size=6))
def test_drawn_rules(one: Any, two: Any, condition: str, events: list[Event]) -> None:
    agree({"s1": one, "s2": two, "condition": condition}, events)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("a|re", "(?=x)y", "Regular expression '(?=x)y' is invalid"),
        ("a|re", r"(x)\1", "is invalid: "),
        ("a|expand", "%servers%", "the placeholder `%servers%` has no values"),
        ("a|nothing", "x", "no rule of Sigma"),
        ("a|week", 3, "the modifier `week` has no counterpart"),
        ("f", 5, "of type boolean"),
        ("n", True, "of type integer"),
    ],
)
def test_what_has_no_counterpart_is_refused(key: str, value: Any, reason: str) -> None:
    found = translated(rule_of({"s": {key: value}, "condition": "s"}))
    assert found.outcome is Outcome.REFUSED
    assert reason in found.reasons[0]


def test_words_without_a_field_need_columns() -> None:
    detection = {"s": ["word"], "condition": "s"}
    assert "keywords without a field" in translated(rule_of(detection), Settings()).reasons[0]
    named = Settings(keywords=("message",))
    assert "LOWER(message) LIKE '%word%'" in translated(rule_of(detection), named).query


def test_a_rule_keeps_what_it_says_of_itself(tmp_path: Path) -> None:
    rule = {
        **rule_of({"s": {"a": "x"}, "condition": "s"}),
        "title": "Odd start",
        "id": "8b3a1b0e-5d9a-4b1f-9f6e-0c2f3b9c7d11",
        "author": "somebody",
        "level": "informational",
        "tags": ["attack.execution", "attack.t1059.001"],
        "description": "@owner: nobody",
    }
    file = tmp_path / "in" / "rule.yml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(rule))
    (found,) = translate_path(file.parent, DIALECTS["sigma"], Settings())
    assert found.notes == ("taken for a query over a log with nothing but events of category c",)
    write_rules([found], tmp_path / "out")
    read = read_rules(tmp_path / "out").rules["Odd start"]
    assert (read.owner, read.severity) == ("somebody", "info")
    assert read.tags == ("attack.execution", "attack.t1059.001")


def test_a_mapping_says_where_events_are(tmp_path: Path) -> None:
    mapping = {
        "fields": {"a": "x"},
        "placeholders": {"servers": ["one", "two"]},
        "logsources": [
            {
                "logsource": {"category": "c"},
                "from": "sensors",
                "where": "kind = 3",
                "type": "start",
                "fields": {"b": "y"},
            }
        ],
    }
    file = tmp_path / "mapping.yml"
    file.write_text(yaml.safe_dump(mapping))
    settings = with_mapping(Settings(), str(file))
    detection = {"s": {"a": "p", "b|expand": "%servers%"}, "condition": "s"}
    found = translated(rule_of(detection), settings)
    assert not found.notes
    assert " ".join(found.query.split()) == (
        "SELECT * FROM sensors WHERE kind = 3 AND type = 'start' "
        "AND (LOWER(x) = 'p' AND (LOWER(y) = 'one' OR LOWER(y) = 'two'))"
    )
    other = {**rule_of(detection), "logsource": {"category": "d"}}
    assert translated(other, settings).reasons == ("the mapping has no log for category d",)


def test_the_logs_of_windows_have_names() -> None:
    rule = rule_of({"s": {"Image|endswith": "\\a.exe"}, "condition": "s"})
    rule["logsource"] = {"product": "windows", "category": "process_creation"}
    found = translated(rule, with_mapping(Settings(), "windows"))
    assert not found.notes
    channel = "LOWER(Channel) IN ('microsoft-windows-sysmon/operational')"
    assert f"{channel} AND EventID IN (1)" in found.query


def test_fields_of_defender_have_spaces() -> None:
    rule = rule_of({"s": {"ThreatName|endswith": "_Test_File"}, "condition": "s"})
    rule["logsource"] = {"product": "windows", "service": "windefend"}
    found = translated(rule, with_mapping(Settings(), "windows"))
    assert "LOWER(`Threat Name`) LIKE" in found.query
    named = with_mapping(Settings(fields={"Threat Name": "ThreatName"}), "windows")
    assert "LOWER(ThreatName) LIKE" in translated(rule, named).query


def test_a_filter_takes_events_from_rules() -> None:
    rule = rule_of({"s": {"a": "p"}, "condition": "s"})
    rule |= {"name": "one", "id": "8b3a1b0e-5d9a-4b1f-9f6e-0c2f3b9c7d11"}
    only = {
        "title": "known",
        "logsource": {"category": "c"},
        "filter": {"rules": [rule["id"]], "selection": {"b": "q"}, "condition": "not selection"},
    }
    text = yaml.safe_dump_all([rule, only])
    (found,) = translate_rules([SourceFile("rule.yml", text)], SETTINGS)
    assert found_by(found, EVENTS) == [0, 2]


def test_a_file_that_is_none_of_sigma_is_told() -> None:
    (found,) = translate_rules([SourceFile("rule.yml", "title: a\ndetection: {b: c")], SETTINGS)
    assert found.outcome is Outcome.REFUSED
    assert found.reasons == (
        "no YAML in line 2, column 17: expected ',' or '}', but got '<stream end>'",
    )
