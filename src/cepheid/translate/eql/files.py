"""Files in, the rules of EQL in them out, with what they say of themselves.

A ``.eql`` file is one query. A TOML file has the rule of Elastic's detection rules; a JSON file, or
lines of JSON, those that Kibana exports.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from cepheid.translate.translated import SourceFile, Translated

SUFFIXES = (".eql", ".toml", ".json", ".ndjson")
SEVERITIES = ("low", "medium", "high", "critical")


class EqlRule(NamedTuple):
    """A rule: all but its query, and the query as it is written."""

    rule: Translated
    text: str


def rules_of(file: SourceFile) -> Iterator[EqlRule]:
    """Read the rules of a file; one that is no EQL, or cannot be read, is a refusal."""
    stem = PurePosixPath(file.path).with_suffix("").as_posix()
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix not in (".toml", ".json", ".ndjson"):
        yield EqlRule(Translated(stem, file=file.path), file.text)
        return
    try:
        documents = _documents(file.text, suffix)
    except ValueError as error:
        yield EqlRule(
            Translated(stem, file=file.path).refused(f"the file cannot be read: {error}"), ""
        )
        return
    for document in documents:
        fields = document.get("rule", document) if isinstance(document, dict) else {}
        if isinstance(fields, dict) and ("query" in fields or "name" in fields):
            yield _rule(fields, stem, file.path)


def _documents(text: str, suffix: str) -> list[Any]:
    if suffix == ".toml":
        return [tomllib.loads(text)]
    try:
        whole = json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return whole if isinstance(whole, list) else [whole]


def _rule(fields: Mapping[str, Any], stem: str, file: str) -> EqlRule:
    authors = fields.get("author", "")
    severity = str(fields.get("severity", "")).lower()
    rule = Translated(
        str(fields.get("name") or stem),
        owner=", ".join(map(str, authors)) if isinstance(authors, list) else str(authors),
        tags=tuple(dict.fromkeys([*_techniques(fields.get("threat")), *_tags(fields.get("tags"))])),
        severity=severity if severity in SEVERITIES else "",
        about=str(fields.get("description", "")),
        file=file,
    )
    language = str(fields.get("language", "eql")).lower()
    if language != "eql":
        rule = rule.refused(f"the rule is written in {language}, and not in EQL")
    elif "query" not in fields:
        kind = str(fields.get("type", "")).replace("_", " ")
        rule = rule.refused(f"the rule has no query{f', but is one of {kind}' if kind else ''}")
    return EqlRule(rule, str(fields.get("query", "")))


def _tags(tags: Any) -> list[str]:
    return [str(one) for one in tags] if isinstance(tags, list) else []


def _techniques(threat: Any) -> Iterator[str]:
    """Yield the tactics and techniques of ATT&CK as tags: ``attack.t1059``."""
    for one in threat if isinstance(threat, list) else []:
        for step in _listed(one, "tactic"):
            yield f"attack.{str(step.get('id', '')).lower()}"
        for step in _listed(one, "technique"):
            yield f"attack.{str(step.get('id', '')).lower()}"
            for smaller in _listed(step, "subtechnique"):
                yield f"attack.{str(smaller.get('id', '')).lower()}"


def _listed(owner: Any, name: str) -> list[dict[str, Any]]:
    found = owner.get(name, []) if isinstance(owner, dict) else []
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
