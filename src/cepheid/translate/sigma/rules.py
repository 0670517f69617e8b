"""Files of Sigma in, a translation of each rule out; rules may name those of other files."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import yaml
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.rule import SigmaRule

from cepheid.errors import CepheidError
from cepheid.language.formatter import format_text
from cepheid.translate.sigma.conditions import write_condition
from cepheid.translate.sigma.correlations import CorrelationWriter, references_of
from cepheid.translate.sigma.names import PARTS, Place, place_of
from cepheid.translate.sigma.reading import read_rules
from cepheid.translate.sigma.values import ValueWriter
from cepheid.translate.translated import CannotTranslateError, Settings, SourceFile, Translated

SEVERITIES = {"informational": "info"}


def translate_rules(files: Sequence[SourceFile], settings: Settings) -> Iterator[Translated]:
    """Translate detections and correlations; a rule that only serves a correlation has no query."""
    found: list[tuple[SourceFile, Any]] = []
    broken: list[Translated] = []
    for file in files:
        try:
            read = read_rules(file.text)
        except (yaml.YAMLError, SigmaError, ValueError, TypeError, AttributeError) as error:
            broken.append(Translated(file.path, file=file.path, reasons=(_told(error),)))
            continue
        found += [(file, one) for one in (*read.rules, *read.filters)]
    filters = [one for _, one in found if isinstance(one, SigmaFilter) and not one.errors]
    rules = [(file, one) for file, one in found if not isinstance(one, SigmaFilter)]
    named = _by_reference(one for _, one in rules)
    served = _served(rules, named)
    for file, rule in rules:
        if id(rule) not in served:
            yield _translated(rule, file, filters, named, settings)
    yield from broken


def _told(error: Exception) -> str:
    """Tell why a file cannot be read: what is wrong where, if it is no YAML."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        what = getattr(error, "problem", None) or "it cannot be read"
        return f"no YAML in line {mark.line + 1}, column {mark.column + 1}: {what}"
    return f"no rule of Sigma: {' '.join(str(error).split())}"


def _by_reference(rules: Iterator[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for rule in rules:
        for reference in (rule.id, rule.name):
            if reference is not None:
                named[str(reference)] = rule
    return named


def _served(rules: list[tuple[SourceFile, Any]], named: dict[str, Any]) -> set[int]:
    """Return the rules that stand for parts of correlations, and not for themselves."""
    return {
        id(named[reference])
        for _, rule in rules
        if isinstance(rule, SigmaCorrelationRule) and not rule.generate
        for reference in references_of(rule)
        if reference in named
    }


def _translated(
    rule: Any,
    file: SourceFile,
    filters: list[SigmaFilter],
    named: dict[str, Any],
    settings: Settings,
) -> Translated:
    known = _described(rule, file)
    if rule.errors:
        return known.refused(
            *(f"no rule of Sigma: {' '.join(str(e).split())}" for e in rule.errors)
        )
    try:
        text, notes = _written(rule, filters, named, settings)
    except CannotTranslateError as error:
        return known.refused(str(error))
    except SigmaError as error:
        return known.refused(f"no rule of Sigma: {' '.join(str(error).split())}")
    try:
        query = format_text(text)
    except CepheidError as error:
        return known.refused(f"Cepheid has no such query: {error.diagnostics[0].message}")
    return msgspec.structs.replace(known, query=query, notes=notes)


def _written(
    rule: Any, filters: list[SigmaFilter], named: dict[str, Any], settings: Settings
) -> tuple[str, tuple[str, ...]]:
    def detect(one: SigmaRule) -> tuple[Place, str, tuple[str, ...]]:
        if one.errors:
            message = f"the rule `{one.title}` is none of Sigma: {one.errors[0]}"
            raise CannotTranslateError(message)
        # A filter changes the rule that it is applied to, which a correlation may name again.
        apart: Any = copy.deepcopy(one) if filters else one
        for each in filters:
            apart = each.apply_on_rule(apart)
        return write_detection(apart, settings)

    if isinstance(rule, SigmaCorrelationRule):
        return CorrelationWriter(named, settings, detect).write(rule)
    place, where, notes = detect(rule)
    return f"SELECT * FROM {place.source} WHERE {where}", notes


def write_detection(rule: SigmaRule, settings: Settings) -> tuple[Place, str, tuple[str, ...]]:
    """Write the condition that a rule finds events by, with its log and notes."""
    place = place_of(
        {part: value for part in PARTS if (value := getattr(rule.logsource, part))}, settings
    )
    writer = ValueWriter(place.names)
    tests = [write_condition(one.parsed, writer) for one in rule.detection.parsed_condition]
    if not tests:
        message = "the rule has no condition"
        raise CannotTranslateError(message)
    where = " OR ".join(dict.fromkeys(tests))
    if place.where:
        where = f"{place.where} AND ({where})"
    notes = (place.note, *writer.notes) if place.note else tuple(writer.notes)
    return place, where, notes


def _described(rule: Any, file: SourceFile) -> Translated:
    level = "" if rule.level is None else rule.level.name.lower()
    lines = [rule.description or ""]
    lines += [f"Id: {rule.id}"] if rule.id else []
    lines += [f"Status: {rule.status.name.lower()}"] if rule.status else []
    lines += [f"False positives: {one}" for one in rule.falsepositives or ()]
    lines += [f"Reference: {one}" for one in rule.references or ()]
    return Translated(
        str(rule.title or file.path),
        owner=str(rule.author or ""),
        tags=tuple(str(tag) for tag in rule.tags),
        severity=SEVERITIES.get(level, level),
        about="\n".join(lines),
        file=file.path,
    )
