"""The parser's callbacks for SWEEP: children of a rule in, one tree node out (§16).

Each method carries the name of a rule or alias of ``grammar.lark``.
"""

from __future__ import annotations

from collections.abc import Sequence as Children
from decimal import Decimal
from typing import Any

from cepheid.language import tree
from cepheid.language.expression_builder import Child, name_of, nodes_of, reject, span_of

EXAMPLE = "`SWEEP(100 TO 10000 STEP 10)` or `SWEEP(0.9, 0.95, 0.99)`"


class SweepBuilder:
    """Sweeps and their values."""

    def sweep(self, c: Children[Child]) -> tree.Sweep:
        return _sweep(c, c[2], None)

    def named_sweep(self, c: Children[Child]) -> tree.Sweep:
        return _sweep(c, c[3], name_of(c[1]))

    def sweep_range(self, c: Children[Child]) -> list[Any]:
        return [*nodes_of(c)]

    def sweep_list(self, c: Children[Child]) -> tuple[Any, ...]:
        return nodes_of(c)


def _sweep(
    c: Children[Child], values: list[Any] | tuple[Any, ...], name: tree.Name | None
) -> tree.Sweep:
    """Build a sweep; a range comes as a list of its ends and its step."""
    for value in values:
        known = isinstance(value, tree.Duration) or (
            isinstance(value, tree.Literal) and type(value.value) in (int, float, str)
        )
        if not known:
            message = "the values of `SWEEP` are constants: numbers, texts or durations"
            reject("E113", message, value.span, f"write {EXAMPLE}")
    kinds = {_kind(value) for value in values}
    if len(kinds) > 1:
        message = "the values of `SWEEP` are of different kinds"
        reject("E113", message, span_of(c), "write numbers, texts or durations alone")
    if isinstance(values, tuple):
        return tree.Sweep(span=span_of(c), values=values, name=name)
    first, last, step = values
    if kinds == {"text"}:
        reject("E113", "texts have no range", span_of(c), "list them: `SWEEP('gold', 'silver')`")
    distance = _number(last) - _number(first)
    if not _number(step) or distance * _number(step) < 0:
        message = "the steps of this `SWEEP` do not lead from its first value to its last"
        reject("E113", message, span_of(c), f"write {EXAMPLE}")
    return tree.Sweep(span=span_of(c), values=(first, last), step=step, name=name)


def _kind(value: tree.Literal | tree.Duration) -> str:
    if isinstance(value, tree.Duration):
        return "duration"
    return "text" if isinstance(value.value, str) else "number"


def _number(value: tree.Literal | tree.Duration) -> Decimal:
    if isinstance(value, tree.Duration):
        return Decimal(value.microseconds)
    return Decimal(value.digits or repr(value.value))


def within_of(extent: Any) -> dict[str, Any]:
    """Return the fields of a window: its length, and the sweep that the length is part of."""
    if not isinstance(extent, tree.Sweep):
        return {"within": extent}
    if not isinstance(extent.values[0], tree.Duration):
        message = "`WITHIN` sweeps over lengths of time"
        help_ = "write `WITHIN SWEEP(1 minute TO 10 minutes STEP 1 minute)`"
        reject("E113", message, extent.span, help_)
    return {"within": extent.values[0], "sweep": extent}
