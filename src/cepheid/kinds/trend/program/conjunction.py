"""Combine the aggregates of the patterns that AND joins to those of sets of matches (§2.10).

A match has a *signature*: which of the patterns it matches, as bits. A set has one match for each
pattern if its signatures can be assigned to the patterns, one to one; which combinations of
signatures can is known beforehand (``combinations_of``). With c matches of a signature, k of them
can be chosen in c over k ways.

Kernels tell of the matches of *at least* some patterns: those of the patterns and of their
intersections, in the order of ``signatures_of``. Numbers of a signature itself follow by
inclusion and exclusion.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from functools import cache
from itertools import combinations_with_replacement, permutations
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cepheid.kinds.trend.program.wide import wide_of

Combination = tuple[tuple[int, int], ...]
"""Signatures, and how many matches of each a set has."""


@cache
def signatures_of(patterns: int) -> tuple[int, ...]:
    """List all signatures: single patterns in their order, then what several have in common."""
    return tuple(sorted(range(1, 1 << patterns), key=lambda s: (s.bit_count(), s)))


@cache
def combinations_of(patterns: int) -> tuple[Combination, ...]:
    """List the combinations of signatures that have a match for each pattern."""
    numbers = range(patterns)
    return tuple(
        tuple(Counter(some).items())
        for some in combinations_with_replacement(signatures_of(patterns), patterns)
        if any(all(s >> n & 1 for s, n in zip(some, p, strict=True)) for p in permutations(numbers))
    )


class Numbers(Protocol):
    """A column of numbers that can be added and multiplied."""

    def __add__(self, other: Self) -> Self: ...
    def __sub__(self, other: Self) -> Self: ...
    def __mul__(self, other: Self) -> Self: ...

    def constant(self, value: int) -> Self:
        """Build a column of the same length with one value."""

    def divided(self, by: int) -> Self:
        """Divide by a small number, which leaves no remainder."""


N = TypeVar("N", bound=Numbers)


class Wide:
    """Wide numbers: mantissas and powers of two."""

    def __init__(self, mantissa: NDArray[np.float64], power: NDArray[np.float64]) -> None:
        part, more = np.frexp(mantissa)
        self._mantissa, self._power = part, np.where(part == 0, 0.0, power + more)

    @classmethod
    def of(cls, numbers: NDArray[Any]) -> Wide:
        """Convert the numbers of kernels."""
        return cls(numbers.real.copy(), numbers.imag.copy())

    def numbers(self) -> NDArray[np.complex128]:
        """Convert to the numbers of kernels."""
        return np.asarray(wide_of(self._mantissa, self._power), np.complex128)

    def __add__(self, other: Wide) -> Wide:
        zero, none = self._mantissa == 0, other._mantissa == 0
        power = np.where(zero, other._power, np.maximum(self._power, other._power))
        power = np.where(none, self._power, power)
        return Wide(self._at(power) + other._at(power), power)

    def __sub__(self, other: Wide) -> Wide:
        return self + Wide(-other._mantissa, other._power)

    def __mul__(self, other: Wide) -> Wide:
        return Wide(self._mantissa * other._mantissa, self._power + other._power)

    def constant(self, value: int) -> Wide:
        """Build a column of the same length with one value."""
        return Wide(np.full(len(self._mantissa), float(value)), np.zeros(len(self._mantissa)))

    def divided(self, by: int) -> Wide:
        """Divide by a small number."""
        return Wide(self._mantissa / by, self._power)

    def _at(self, power: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shift mantissas to other powers; what is too small vanishes."""
        shift = np.clip(self._power - power, -2000, 0).astype(np.int64)
        return np.asarray(np.ldexp(self._mantissa, shift), np.float64)


class Whole:
    """Whole numbers of any size, or residues of a prime."""

    def __init__(self, values: Sequence[int], modulus: int = 0) -> None:
        self.values = [v % modulus for v in values] if modulus else list(values)
        self._modulus = modulus

    def __add__(self, other: Whole) -> Whole:
        return self._new([a + b for a, b in zip(self.values, other.values, strict=True)])

    def __sub__(self, other: Whole) -> Whole:
        return self._new([a - b for a, b in zip(self.values, other.values, strict=True)])

    def __mul__(self, other: Whole) -> Whole:
        return self._new([a * b for a, b in zip(self.values, other.values, strict=True)])

    def constant(self, value: int) -> Whole:
        """Build a column of the same length with one value."""
        return self._new([value] * len(self.values))

    def divided(self, by: int) -> Whole:
        """Divide by a small number, which leaves no remainder."""
        if self._modulus:
            return self * self.constant(pow(by, -1, self._modulus))
        return self._new([value // by for value in self.values])

    def _new(self, values: Sequence[int]) -> Whole:
        return Whole(values, self._modulus)


def combine(at_least: Sequence[Sequence[N]]) -> list[N]:
    """Compute the parts of all sets of matches: their number, and sums over their matches.

    Parameters
    ----------
    at_least
        For every signature the parts of the matches of at least these patterns. The first part is
        their number, the others are sums over them.
    """
    own = [_own([parts[a] for parts in at_least]) for a in range(len(at_least[0]))]
    counts = dict(zip(signatures_of(_patterns(at_least)), own[0], strict=True))
    total, shares = _choose(counts, summed=len(own) > 1)
    parts = [total]
    for sums in own[1:]:
        terms = (s * share for s, share in zip(sums, shares, strict=True))
        parts.append(_sum(terms, total.constant(0)))
    return parts


def fingerprints(powers: Sequence[Sequence[Whole]]) -> Whole:
    """Compute fingerprints of sets of sets of matches: products of fingerprints, added up.

    Parameters
    ----------
    powers
        For every power from 1 to the number of patterns, the sums of these powers of the
        fingerprints of matches, for every signature at least.
    """
    sums = [_own(power) for power in powers]
    one, chosen = sums[0][0].constant(1), {}
    for place, signature in enumerate(signatures_of(len(powers))):
        found = [one]
        for k in range(1, len(powers) + 1):
            # Newton: k e(k) = e(k-1) p(1) - e(k-2) p(2) + ...
            value = one.constant(0)
            for n in range(1, k + 1):
                term = found[k - n] * sums[n - 1][place]
                value = value + term if n % 2 else value - term
            found.append(value.divided(k))
        chosen[signature] = found
    total = one.constant(0)
    for combination in combinations_of(len(powers)):
        total = total + _product((chosen[s][k] for s, k in combination), one)
    return total


def combine_wide(
    at_least: Sequence[NDArray[Any]], least: Sequence[NDArray[np.int64]]
) -> tuple[NDArray[np.complex128], NDArray[np.int64]]:
    """Combine rows of wide numbers and of smallest values; without a set, there is no value.

    If there is a set, every match of every pattern is in one (the sets are the bases of a
    transversal matroid), so the smallest value is that of all matches, and so is what infinite and
    undefined values add up to.
    """
    patterns = _patterns(at_least)
    with np.errstate(invalid="ignore", over="ignore"):
        plain = np.sum([side.real for side in at_least[:patterns]], axis=0)
        finite = [np.where(np.isfinite(plain), side, 0) for side in at_least]
        columns = [[Wide.of(column) for column in side.T] for side in finite]
        numbers = np.stack([part.numbers() for part in combine(columns)], axis=1)
    numbers = np.where(np.isfinite(plain), numbers, plain)
    some = numbers[:, 0].real > 0
    values = np.min(np.stack(least[:patterns]), axis=0)
    none = np.iinfo(np.int64).max
    return np.where(some[:, None], numbers, 0), np.where(some[:, None], values, none)


def _patterns(at_least: Sized) -> int:
    return (len(at_least) + 1).bit_length() - 1


def _own(at_least: Sequence[N]) -> list[N]:
    """Compute the numbers of every signature itself, by inclusion and exclusion."""
    signatures = signatures_of(_patterns(at_least))
    found = []
    for signature in signatures:
        own = at_least[0].constant(0)
        for other, number in zip(signatures, at_least, strict=True):
            if other & signature == signature:
                odd = (other ^ signature).bit_count() % 2
                own = own - number if odd else own + number
        found.append(own)
    return found


def _choose(counts: dict[int, N], *, summed: bool) -> tuple[N, list[N]]:
    """Count the sets, and for every signature the sets that have a given match of it."""
    first = next(iter(counts.values()))
    one, zero = first.constant(1), first.constant(0)
    patterns = _patterns(counts)
    ways = {s: [_over(c, k) for k in range(patterns + 1)] for s, c in counts.items()}
    left = {s: [_over(c - one, k) for k in range(patterns)] for s, c in counts.items()}
    total, shares = zero, dict.fromkeys(counts, zero)
    for combination in combinations_of(patterns):
        total = total + _product((ways[s][k] for s, k in combination), one)
        for mine, number in combination if summed else ():
            others = _product((ways[s][k] for s, k in combination if s != mine), one)
            shares[mine] = shares[mine] + others * left[mine][number - 1]
    return total, list(shares.values())


def _over(count: N, chosen: int) -> N:
    """Compute how many ways there are to choose some of the matches."""
    product = count.constant(1)
    for n in range(chosen):
        product = product * (count - count.constant(n))
    return product.divided(math.factorial(chosen))


def _sum(terms: Iterable[N], zero: N) -> N:
    for term in terms:
        zero = zero + term
    return zero


def _product(factors: Iterable[N], one: N) -> N:
    for factor in factors:
        one = one * factor
    return one
