"""Check that the limits of a rule's alerts fit its rows (E535)."""

from __future__ import annotations

from collections.abc import Sequence

from cepheid.errors import DataError, Diagnostic, suggest_names
from cepheid.interfaces.rule import Rule
from cepheid.plans.limits import Limit


def untimed_limit(rule: Rule) -> DataError | None:
    """Build the error of a rule with limits whose rows have no time; None without limits."""
    if rule.rate_limit is None and rule.deduplicate is None:
        return None
    message = f"the rule `{rule.name}` limits its alerts, but its rows have no time"
    helps = (
        "add a window: `WITHIN 10 minutes SLIDE 1 minute`",
        "or, in MATCH_RECOGNIZE, `WITHIN INTERVAL '10' MINUTE` after PATTERN (...)",
        "or leave `rate_limit` and `deduplicate` out",
    )
    return DataError([Diagnostic("E535", message, helps=helps)], file=rule.name)


def check_columns(rule: Rule, limit: Limit, known: Sequence[str]) -> None:
    """Check that rows have the columns of a limit.

    Raises
    ------
    DataError
        E535 for the first column that they do not have.
    """
    for name in limit.by:
        if name not in known:
            message = f"the rule `{rule.name}` limits alerts by `{name}`, "
            message += "which its rows do not have"
            helps = (suggest_names(name, known, owner="a row"),)
            raise DataError([Diagnostic("E535", message, helps=helps)], file=rule.name)
