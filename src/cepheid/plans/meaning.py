"""List the parts of a plan that a state depends on, each as a text that ignores the spelling.

Places in the query text, reasons and editions of functions are left out, so that a state fits a
query that was only written in another way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cepheid.plans.plan import Plan

_OMITTED = frozenset({"span", "reason", "edition"})
_LATER: dict[str, Any] = {
    "distinct": [],
    "second": 0,
    "further": [],
    "timed": False,
    "least_events": 0,
    "most_events": None,
}
"""Fields that older versions did not have: without a value, states of these still fit."""
_OUTER = frozenset({"text", "warnings", "choice", "columns", "version", "functions"})

Meaning = dict[str, str]
"""The parts of a query that shape its state, by their names in messages."""


def fingerprint(value: Any) -> str:
    """Serialize a part of a plan, without places and reasons."""
    return msgspec.json.encode(_plain(msgspec.to_builtins(value)), order="deterministic").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _plain(inner) for key, inner in value.items() if key not in _OMITTED}
        return {key: inner for key, inner in kept.items() if inner != _LATER.get(key, ...)}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def times_of(plan: Plan) -> str:
    """Serialize how events are ordered and named."""
    return fingerprint([plan.time, plan.type, plan.tick_ns, plan.tiebreak])


def whole_meaning(plan: Plan) -> Meaning:
    """Return the meaning of a query of which nothing may change."""
    fields = msgspec.to_builtins(plan)
    return {"the query": fingerprint({k: v for k, v in fields.items() if k not in _OUTER})}


def differing(before: Meaning, now: Meaning) -> list[str]:
    """List the parts that differ."""
    return [name for name in now if before.get(name) != now[name]]
