"""Answer skip-till-next-match of one rising or falling variable; see ``kernels/next_stack.py``.

What does not qualify is left to ``evaluate.py``, which gives the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cepheid.kernels import next_stack as kernel
from cepheid.kernels.moments import has_moments
from cepheid.kernels.prefix_arrays import are_usual
from cepheid.kernels.ranks import order_rows
from cepheid.kinds.trend.look_back.relations import Comparison
from cepheid.language import tree
from cepheid.patterns.segments import Segments, take
from cepheid.plans.plan import Evaluator
from cepheid.plans.template import Template

if TYPE_CHECKING:
    from cepheid.kinds.trend.look_back.question import Question

NO_VALUE = np.iinfo(np.int64).max


def answer_by_stack(
    question: Question, template: Template, segments: Segments
) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
    """Compute wide numbers and minima of every segment; None if a stack does not suffice."""
    comparison = _comparison(question, template)
    if comparison is None or not (segments.bits & 1).all():
        return None
    rows, ptr = segments.rows, segments.ptr
    if question.together:
        order = np.empty(len(rows), np.int64)
        if order_rows(ptr, take(question.arrays.ts, rows), True, order) > 1:
            return None
    weights = take(question.arrays.weights, rows).astype(np.float64, copy=False)
    if not are_usual(weights):
        return None
    valid = comparison.prev_valid
    count, depth = len(segments.key), segments.longest + 1
    parts, mins = question.weight_of.shape[1], question.value_of.shape[1]
    doubles, numbers = np.zeros((count, parts)), np.zeros((count, parts), np.complex128)
    least = np.full((count, mins), NO_VALUE, np.int64)
    kernel.run_stacks(
        ptr, take(comparison.prev_keys, rows),
        np.ones(len(rows), np.bool_) if valid is None else take(valid, rows),
        comparison.operator in ("<", "<="), comparison.operator in ("<=", ">="),
        weights, question.weight_of[0], take(question.arrays.values, rows), question.value_of[0],
        np.empty(depth, np.int64), np.empty((depth, parts)), np.empty((depth, mins), np.int64),
        doubles, least,
    )  # fmt: skip
    kernel.widen_all(doubles, numbers)
    return numbers, least


def _comparison(question: Question, template: Template) -> Comparison | None:
    """Find the only predicate of a pattern of one variable, which compares a value with itself."""
    if question.semantics is not tree.Semantics.NEXT_MATCH or len(question.variables) != 1:
        return None
    if question.listed or question.ending or question.evaluator is Evaluator.PAIRWISE:
        return None
    if len(template.states) != 1 or template.guards or len(template.edges) != 2:
        return None
    if has_moments(question.weight_of) or len(question.relations) != 1:
        return None
    (relation,) = question.relations
    if relation.rest or len(relation.comparisons) != 1:
        return None
    comparison = relation.comparisons[0]
    itself = comparison.prev_keys is comparison.next_keys
    return comparison if itself and comparison.operator in ("<", "<=", ">", ">=") else None
