"""Files of EQL rules: plain queries, Elastic's TOML and what Kibana exports."""

from __future__ import annotations

import json

import pytest

from cepheid.translate.eql.files import rules_of
from cepheid.translate.eql.meaning import ELASTICSEARCH
from cepheid.translate.eql.queries import write_query
from cepheid.translate.translated import CannotTranslateError, Settings, SourceFile

TOML = '''
[rule]
author = ["Elastic"]
description = "Somebody does something."
language = "eql"
name = "Odd start"
severity = "High"
tags = ["Domain: Endpoint"]
query = """
process where true
"""

[[rule.threat]]
framework = "MITRE ATT&CK"
[[rule.threat.technique]]
id = "T1059"
[[rule.threat.technique.subtechnique]]
id = "T1059.001"
[rule.threat.tactic]
id = "TA0002"
'''


def test_a_rule_of_elastic_keeps_what_it_says_of_itself() -> None:
    ((rule, text),) = rules_of(SourceFile("a/b.toml", TOML))
    assert text.strip() == "process where true"
    assert (rule.name, rule.owner, rule.severity) == ("Odd start", "Elastic", "high")
    tags = ("attack.ta0002", "attack.t1059", "attack.t1059.001", "Domain: Endpoint")
    assert rule.tags == tags
    assert rule.about == "Somebody does something."


def test_lines_of_json_are_rules_and_other_languages_are_refused() -> None:
    lines = [
        {"name": "a", "query": "any where true", "type": "eql", "language": "eql"},
        {"name": "b", "query": "x: 1", "language": "kuery"},
        {"name": "c", "type": "machine_learning"},
        {"exported_count": 2},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    first, second, third = rules_of(SourceFile("a.ndjson", text))
    assert (first.rule.name, first.text) == ("a", "any where true")
    assert second.rule.reasons == ("the rule is written in kuery, and not in EQL",)
    assert third.rule.reasons == ("the rule has no query, but is one of machine learning",)


def test_a_broken_file_is_a_refusal() -> None:
    ((rule, _),) = rules_of(SourceFile("a.toml", "[rule"))
    assert rule.reasons[0].startswith("the file cannot be read")
    ((rule, text),) = rules_of(SourceFile("a.eql", "any where true"))
    assert (rule.name, text) == ("a", "any where true")


def test_a_rule_that_is_too_long_is_a_refusal() -> None:
    names = ", ".join(f'"{number:06}*"' for number in range(7_000))
    with pytest.raises(CannotTranslateError, match="more than 100,000"):
        write_query(f"any where t : ({names})", Settings(), ELASTICSEARCH)
    # Texts without a wildcard are a list, which is short.
    short = write_query(f"any where t : ({names.replace('*', '')})", Settings(), ELASTICSEARCH)
    assert "LOWER(t) IN ('000000'" in short.query
