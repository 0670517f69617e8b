"""The frame of ``cepheid translate``: outcomes, names, files of rules and reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cepheid.errors import DataError
from cepheid.interfaces.cli import app
from cepheid.interfaces.rules import read_rules
from cepheid.translate.dialects import DIALECTS
from cepheid.translate.report import as_json, as_markdown, as_text
from cepheid.translate.translate import translate_path
from cepheid.translate.translated import Dialect, Outcome, Settings, SourceFile, Translated
from cepheid.translate.write import rule_text, write_rules

EXACT = Translated(
    "Odd | start",
    "SELECT * FROM log WHERE name = 'a'",
    owner="desk",
    tags=("attack.t1059", "a, b"),
    severity="high",
    about="@owner: somebody else\nA second line.",
    file="rules/a.eql",
)
NOTED = Translated("Odd   start", "SELECT * FROM log", notes=("a is\na number",))
REFUSED = Translated("gone", reasons=("no counterpart",))


def _lines(files: Sequence[SourceFile], settings: Settings) -> Iterator[Translated]:
    del settings
    for file in files:
        for line in file.text.splitlines():
            yield Translated("twice", line, file=file.path)


LINES = Dialect("lines", "lines", (".txt",), "type", _lines)


def test_a_rule_has_one_of_three_outcomes() -> None:
    assert [one.outcome for one in (EXACT, NOTED, REFUSED)] == list(Outcome)
    assert EXACT.refused("why").reasons == ("why",)
    assert not EXACT.refused("why").query


def test_written_rules_read_back_with_all_fields(tmp_path: Path) -> None:
    assert write_rules([EXACT, NOTED, REFUSED], tmp_path / "rules") == 2
    assert {one.name for one in (tmp_path / "rules").iterdir()} == {
        "odd-start.cq",
        "odd-start--2.cq",
    }
    read = read_rules(tmp_path / "rules")
    assert not read.refused
    rule = read.rules["Odd | start"]
    assert (rule.owner, rule.tags, rule.severity) == ("desk", ("attack.t1059", "a b"), "high")
    assert rule.query.endswith(EXACT.query + "\n")
    assert "-- Note: a is a number" in read.rules["Odd start"].query
    with pytest.raises(FileExistsError):
        write_rules([EXACT], tmp_path / "rules")


def test_a_text_without_fields_is_the_query_alone() -> None:
    assert rule_text(Translated("", "SELECT * FROM log")) == "SELECT * FROM log\n"


def test_reports_say_what_became_of_each_rule() -> None:
    rules = [EXACT, NOTED, REFUSED]
    assert as_text(rules).splitlines()[-1] == (
        "3 rules: 1 exact, 1 with a note, 1 not carried over"
    )
    assert "not carried over: gone\n    no counterpart" in as_text(rules)
    told = json.loads(as_json(rules))
    assert told["counts"] == {"exact": 1, "with a note": 1, "not carried over": 1}
    assert [one["outcome"] for one in told["rules"]] == list(told["counts"])
    assert told["rules"][2]["query"] is None
    assert "| Odd \\| start | exact |  |" in as_markdown(rules)
    assert "| no counterpart | 1 |" in as_markdown(rules)


def test_names_are_made_different_and_queries_are_planned(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("SELECT * FROM log\nSELECT * FRM log\n")
    (tmp_path / ".b.txt").write_text("SELECT * FROM log")
    (tmp_path / "c.other").write_text("SELECT * FROM log")
    found = translate_path(tmp_path, LINES, Settings())
    assert [one.name for one in found] == ["twice", "twice (2)"]
    assert [one.outcome for one in found] == [Outcome.EXACT, Outcome.REFUSED]
    assert "E1" in found[1].reasons[0]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no rules of lines"):
        translate_path(tmp_path, LINES, Settings())
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        translate_path(tmp_path, LINES, Settings())
    with pytest.raises(DataError, match="could not read"):
        translate_path(tmp_path / "missing.txt", LINES, Settings())


def test_columns_are_fields_of_structures_unless_flat_or_named() -> None:
    assert Settings().column("process.name") == "process.name"
    assert Settings(flat=True).column("process.name") == "`process.name`"
    assert Settings(fields={"process.name": "image"}).column("process.name") == "image"
    assert Settings(types={"image": "text"}, fields={"name": "image"}).type_of("name") == "text"


def test_every_dialect_has_its_own_name() -> None:
    assert all(name == dialect.name for name, dialect in DIALECTS.items())


def test_the_command_writes_rules_and_a_report(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.eql").write_text('process where name : "CMD*"')
    (tmp_path / "in" / "bad.eql").write_text("process where true | unique_count pid")
    words = ["translate", "--from", "eql", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app.typer(), [*words, "--report", str(tmp_path / "report.json")])
    assert done.exit_code == 1, done.output  # One rule is not carried over.
    assert "2 rules: 1 exact, 0 with a note, 1 not carried over" in done.output
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["exact"] == 1
    (rule,) = read_rules(tmp_path / "out").rules.values()
    assert "LOWER(name) LIKE 'cmd%'" in rule.query
    again = CliRunner().invoke(app.typer(), words)
    assert "exists already" in str(again.exception)


def test_a_folder_is_made_only_for_rules(tmp_path: Path) -> None:
    file = tmp_path / "one.eql"
    file.write_text("process where true | unique_count pid")
    words = ["translate", "--from", "eql", str(file), "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(app.typer(), words).exit_code == 1
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    file.write_text("process where pid > 1")
    done = CliRunner().invoke(app.typer(), words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "one.cq").is_file()
