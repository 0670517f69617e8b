"""Aggregate matches that must be built, because a condition spans the whole match (§4.5).

Input and output are those of ``evaluate.answer_segments``, so windows, groups and HAVING are
computed as usual. Matches are built and counted a batch at a time, never kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cepheid.arrays.columns import NO_VALUE
from cepheid.kernels.compose import add_rows
from cepheid.kernels.moments import DURATION, has_moments, second_of
from cepheid.kernels.ring import MERSENNE
from cepheid.kinds.trend.listing.enumerate import Lister
from cepheid.kinds.trend.listing.found import Found
from cepheid.kinds.trend.listing.global_predicates import check_built, keep_matches
from cepheid.kinds.trend.look_back.evaluate import Answer
from cepheid.kinds.trend.look_back.question import Question
from cepheid.kinds.trend.program.wide import fit_doubles, wide_of
from cepheid.patterns.segments import Segments
from cepheid.plans.plan import GlobalPredicate
from cepheid.plans.template import Template

Judges = tuple[GlobalPredicate, ...]


def aggregate_matches(
    question: Question, template: Template, segments: Segments, moduli: tuple[int, ...],
    judges: Judges,
) -> list[Answer]:  # fmt: skip
    """Aggregate the matches that meet the global predicates.

    Raises
    ------
    DataError
        E512 if a segment has too many matches.
    """
    count, parts = len(segments.key), question.weight_of.shape[1]
    everything = (0, *moduli)
    totals: list[NDArray[Any]] = [
        np.zeros((count, parts), np.uint64 if modulus else np.complex128) for modulus in everything
    ]
    values = np.full((count, question.value_of.shape[1]), NO_VALUE, np.int64)
    ended = np.zeros(count, np.float64)
    for found, base in _matches(question, template, segments, judges):
        tail = question.arrays.ts[found.rows[found.ptr[1:] - 1]] == segments.window[base]
        ended += np.bincount(base[tail], minlength=count)
        for total, modulus in zip(totals, everything, strict=True):
            _add_numbers(question, found, base, total, modulus)
        _add_values(question, found, base, values)
    return [
        Answer(total, values, ended.astype(total.dtype))
        for total, modulus in zip(totals, everything, strict=True)
    ]


def numbers_of_matches(
    question: Question, found: Found, moduli: tuple[int, ...]
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.int64]]:
    """Compute the aggregates of every single match, in default numbers and for each modulus."""
    count, parts = len(found), question.weight_of.shape[1]
    base = np.arange(count)
    totals = []
    for modulus in (0, *moduli):
        totals.append(np.zeros((count, parts), np.uint64 if modulus else np.complex128))
        _add_numbers(question, found, base, totals[-1], modulus)
    values = np.full((count, question.value_of.shape[1]), NO_VALUE, np.int64)
    _add_values(question, found, base, values)
    return tuple(totals), values


def fingerprint_matches(
    question: Question, template: Template, segments: Segments, judges: Judges, power: int = 1
) -> NDArray[np.uint64]:
    """Compute fingerprints of segments: equal for equal sets of matches, and else almost never.

    With a power, the sums of these powers of the fingerprints of single matches.
    """
    prints = np.zeros(len(segments.key), np.uint64)
    shape = (len(question.variables), len(question.arrays.ts))
    salt = np.random.default_rng(2**31 - 1).integers(1, MERSENNE, shape, np.uint64)
    for found, base in _matches(question, template, segments, judges):
        for n in range(len(found)):
            product = 1
            for at in range(found.ptr[n], found.ptr[n + 1]):
                product = product * int(salt[found.variables[at], found.rows[at]]) % MERSENNE
            prints[base[n]] = (int(prints[base[n]]) + pow(product, power, MERSENNE)) % MERSENNE
    return prints


def _matches(
    question: Question, template: Template, segments: Segments, judges: Judges
) -> Iterator[tuple[Found, NDArray[np.int64]]]:
    """Enumerate the matches of segments that meet all predicates, with their segments."""
    segments = segments._replace(base=np.arange(len(segments.key)))
    lister = Lister(
        question, template, segments,
        lambda parts: np.repeat(parts.ptr[:-1], np.diff(parts.ptr)),
        lambda parts: np.ones(len(parts.rows), np.bool_),
        lambda parts: parts.base, judges,
    )  # fmt: skip
    built, events = np.zeros((2, len(segments.key)), np.int64)
    for batch in lister.batches():
        base = lister.segments.base[batch.segment]
        built += np.bincount(base, minlength=len(built))
        # Numbers of events are far below 2^53, where doubles begin to round.
        events += np.bincount(base, np.diff(batch.ptr), len(built)).astype(np.int64)
        check_built(int(built.max()), int(events.max()))
        found = keep_matches(lister.rest, question.columns, question.variables, batch)
        if len(found):
            yield found, lister.segments.base[found.segment]


def _add_numbers(
    question: Question, found: Found, base: NDArray[np.int64], total: NDArray[Any], modulus: int
) -> None:
    """Add counts and sums; sums of 32-bit residues stay below 2^64 for a whole batch."""
    count = len(total)
    kept = np.bincount(base, minlength=count).astype(total.dtype)
    # Matches are built one by one, so their number is never large enough to be rounded.
    total[:, 0] = (total[:, 0] + kept) % modulus if modulus else total[:, 0] + kept
    segment = base[found.owner]
    for part in range(1, total.shape[1]):
        if has_moments(question.weight_of[:, part]):
            values = wide_of(_moments(question, found, part))[:, None]
            _add_up(values, base, total[:, part : part + 1])
            continue
        column = question.weight_of[found.variables, part]
        mine = np.flatnonzero(column >= 0)
        weights = question.arrays.weights[column[mine], found.rows[mine]]
        if modulus:
            added = np.zeros(count, np.uint64)
            residues = np.mod(weights.astype(np.int64), np.int64(modulus)).astype(np.uint64)
            np.add.at(added, segment[mine], residues)
            total[:, part] = (total[:, part] + added) % np.uint64(modulus)
        else:
            numbers = wide_of(weights)[:, None]
            place = segment[mine]
            if fit_doubles(weights[None]):
                sums = np.bincount(place, weights, minlength=count).astype(np.float64)
                numbers = wide_of(sums)[:, None]
                place = np.arange(count)
            _add_up(numbers, place, total[:, part : part + 1])


def _moments(question: Question, found: Found, part: int) -> NDArray[np.float64]:
    """Compute the value of every match that a part adds up, or its square (§5.7)."""
    codes = question.weight_of[:, part]
    if (codes == DURATION).any():
        times = question.arrays.ts[found.rows]
        return np.asarray(times[found.ptr[1:] - 1] - times[found.ptr[:-1]], np.float64)
    first = int(second_of(int(codes[codes < -1][0])))
    if has_moments(question.weight_of[:, first]):
        return _moments(question, found, first) ** 2
    column = question.weight_of[found.variables, first]
    weights = np.where(column >= 0, question.arrays.weights[column, found.rows], 0.0)
    sums = np.bincount(found.owner, weights, minlength=len(found))
    return np.asarray(sums, np.float64) ** 2


def _add_values(
    question: Question, found: Found, base: NDArray[np.int64], values: NDArray[np.int64]
) -> None:
    """Update the minima and maxima, as keys of which the smallest counts."""
    segment = base[found.owner]
    for part in range(values.shape[1]):
        column = question.value_of[found.variables, part]
        mine = np.flatnonzero(column >= 0)
        keys = question.arrays.values[column[mine], found.rows[mine]]
        np.minimum.at(values[:, part], segment[mine], keys)


def _add_up(numbers: NDArray[Any], place: NDArray[np.int64], total: NDArray[Any]) -> None:
    """Add wide numbers to the totals at their indexes."""
    nothing = np.zeros((len(numbers), 0), np.int64)
    least = np.zeros((len(total), 0), np.int64)
    summed = np.zeros_like(total)
    numbers, nothing = np.concatenate([total, numbers]), np.concatenate([least, nothing])
    place = np.concatenate([np.arange(len(total)), place])
    add_rows(numbers, nothing, place, summed, least, np.uint64(0))
    total[:] = summed
