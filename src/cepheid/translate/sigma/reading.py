"""A text of YAML in, rules of Sigma out, with what the specification has beyond pySigma.

pySigma takes one comparison in a condition, and the specification a range of two; it takes `and`,
`or` and `not`, and the specification writes them in capitals, too.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from sigma.collection import SigmaCollection
from sigma.correlations import SigmaCorrelationConditionOperator
from sigma.exceptions import SigmaCorrelationConditionError

_FURTHER = "cepheid_further_comparisons"
"""The attribute of a rule that keeps all comparisons of its condition but the first one."""

_OPERATORS = SigmaCorrelationConditionOperator.operators()
_WORDS = re.compile(r"\b(?:AND|OR|NOT)\b")


def read_rules(text: str) -> SigmaCollection:
    """Read all rules and filters of a file; errors of a rule are in the rule.

    Raises
    ------
    yaml.YAMLError, sigma.exceptions.SigmaError, ValueError, TypeError, AttributeError
        If it cannot be read at all.
    """
    documents = [_prepared(one) for one in yaml.safe_load_all(text)]
    return SigmaCollection.from_dicts(
        documents, collect_errors=True, collect_filters=True, resolve_references=False
    )


def further_comparisons(rule: Any) -> list[tuple[str, int | float]]:
    """List what a condition asks for beside its first comparison: names of operators, numbers."""
    return list(rule.custom_attributes.get(_FURTHER, ()))


def _prepared(document: Any) -> Any:
    correlation = document.get("correlation") if isinstance(document, dict) else None
    if not isinstance(correlation, dict):
        return document
    condition = correlation.get("condition")
    if isinstance(condition, str):
        lower = _WORDS.sub(lambda found: found[0].lower(), condition)
        return {**document, "correlation": {**correlation, "condition": lower}}
    if not isinstance(condition, dict):
        return document
    _, *further = [name for name in condition if name in _OPERATORS] or [""]
    if not further:
        return document
    rest = {name: value for name, value in condition.items() if name not in further}
    return {
        **document,
        "correlation": {**correlation, "condition": rest},
        _FURTHER: [(name.upper(), _number(condition[name])) for name in further],
    }


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f"'{value}' is no valid Sigma correlation condition count"
        raise SigmaCorrelationConditionError(message)
    return value
