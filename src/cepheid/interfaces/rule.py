"""One rule: fields as a file has them in, an immutable value out, or all mistakes in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.events.temporal import UNIT_MICROSECONDS, duration_us
from cepheid.interfaces.rule_parameters import Parameters, read_parameters
from cepheid.plans.limits import Limit

SEVERITIES = ("info", "low", "medium", "high", "critical")
_ANSWERS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_LIMIT = re.compile(
    r"(?P<rows>\d+)\s+per\s+(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[^\W\d]+)(?:\s+by\s+(?P<by>.+))?",
    re.IGNORECASE,
)
_REPEAT = re.compile(
    r"(?:(?P<by>.+?)\s+)?within\s+(?P<amount>\d+(?:\.\d+)?)\s*(?P<unit>[^\W\d]+)", re.IGNORECASE
)


class Rule(msgspec.Struct, frozen=True):
    """A query with a name and with what people need to work with its rows, which are alerts.

    ``deduplicate`` is a limit of one alert; it comes before ``rate_limit``.
    """

    name: str
    query: str
    owner: str = ""
    tags: tuple[str, ...] = ()
    severity: str = ""
    enabled: bool = True
    rate_limit: Limit | None = None
    deduplicate: Limit | None = None
    parameters: Parameters = ()


FIELDS = Rule.__struct_fields__

_SIGMA = frozenset({"detection", "correlation"})
"""Fields that rules of Sigma have, and ours do not."""


def rule_of(fields: Mapping[str, Any], name: str, place: str) -> Rule:
    """Make a rule of the fields that a file has.

    Parameters
    ----------
    fields
        Values by name: texts, and where a file has them also lists, booleans and numbers.
    name
        The name of a rule that has none.
    place
        The file, for messages.

    Raises
    ------
    DataError
        E532 for all fields that are unknown or of the wrong kind, E534 for parameters, E535 for
        limits; its ``file`` is the name of the rule.
    """
    given = {key: value for key, value in fields.items() if value is not None and value != ""}
    own = str(given.get("name", name))
    found = _Fields(f"the rule `{own}` in `{place}`")
    if "query" not in given and _SIGMA & given.keys():
        way_out = "translate it first: `cepheid translate --from sigma FOLDER --output rules`"
        found.wrong("E532", "is a rule of Sigma", way_out)
        raise DataError(found.diagnostics, file=own)
    for key in given:
        if key not in FIELDS:
            helps = suggest_names(str(key), FIELDS, owner="a rule")
            found.wrong("E532", f"has an unknown field `{key}`", helps)
    if not isinstance(given.get("name", name), str | int) or not own.strip():
        found.wrong("E532", "has no text as its name", "give it a name: `name: big-trades`")
    query = given.get("query")
    if not isinstance(query, str) or not query.strip():
        found.wrong("E532", "has no query", "write it as text: `query: RETURN COUNT(*) PATTERN A`")
    made = Rule(
        own,
        str(query),
        found.text("owner", given),
        found.tags(given),
        found.severity(given),
        found.enabled(given),
        found.limit("rate_limit", given, _LIMIT, "10 per 1 hour by symbol"),
        found.limit("deduplicate", given, _REPEAT, "symbol within 10 minutes"),
        found.parameters(given),
    )
    if found.diagnostics:
        raise DataError(found.diagnostics, made.query, file=own)
    return made


class _Fields:
    """Reads the fields of a rule, and collects the mistakes in them."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.diagnostics: list[Diagnostic] = []

    def wrong(self, code: str, what: str, help_: str) -> None:
        """Add a mistake."""
        helps = (help_,) if help_ else ()
        self.diagnostics.append(Diagnostic(code, f"{self._owner} {what}", helps=helps))

    def text(self, name: str, given: Mapping[str, Any]) -> str:
        """Read a text; without it there is none."""
        value = given.get(name, "")
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.wrong("E532", f"has a field `{name}` that is no text", f"write `{name}: name`")
            return ""
        return str(value).strip()

    def tags(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Read tags: a list of them, or a text with commas between them."""
        value = given.get("tags", ())
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(one, str) for one in parts):
            self.wrong("E532", "has tags that are no texts", "write `tags: [fraud, cards]`")
            return ()
        return tuple(dict.fromkeys(filter(None, (one.strip() for one in parts))))

    def severity(self, given: Mapping[str, Any]) -> str:
        """Read a severity."""
        value = self.text("severity", given).lower()
        if value and value not in SEVERITIES:
            help_ = suggest_names(value, SEVERITIES, owner="the field")
            self.wrong("E532", f"has an unknown severity `{value}`", help_)
        return value

    def enabled(self, given: Mapping[str, Any]) -> bool:
        """Read whether a rule is on."""
        value = given.get("enabled", True)
        answer = value if isinstance(value, bool) else _ANSWERS.get(str(value).strip().lower())
        if answer is None:
            self.wrong("E532", f"is neither on nor off: `{value}`", "write `enabled: false`")
        return answer is not False

    def limit(
        self, name: str, given: Mapping[str, Any], form: re.Pattern[str], example: str
    ) -> Limit | None:
        """Read a limit of alerts."""
        value = given.get(name)
        if value is None:
            return None
        match = form.fullmatch(value.strip()) if isinstance(value, str) else None
        known = match is not None and match["unit"].lower() in UNIT_MICROSECONDS
        length = duration_us(match["amount"], match["unit"]) if match is not None and known else 0
        rows = int(match.groupdict().get("rows") or 1) if match is not None else 0
        if match is None or not length or not rows:
            message = f"has a field `{name}` that cannot be read: `{value}`"
            self.wrong("E535", message, f"write `{name}: {example}`")
            return None
        columns = (one.strip().strip("`") for one in (match["by"] or "").split(","))
        return Limit(rows, length, tuple(dict.fromkeys(filter(None, columns))))

    def parameters(self, given: Mapping[str, Any]) -> Parameters:
        """Read the values of parameters."""
        try:
            return read_parameters(given.get("parameters"))
        except ValueError as error:
            help_ = "write `limit: [100, 200]`, or `limit: 100..1000:100` for a range"
            self.wrong("E534", f"has parameters that cannot be read: {error}", help_)
            return ()
