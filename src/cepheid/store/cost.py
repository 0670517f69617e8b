"""Estimate the cost of a replay from selectivities (Körber, section 3.4.3).

The candidates of a symbol are modelled as a Poisson process. The length of a chain of them has a
hypoexponential distribution; chains longer than the window drop out. Symbols at a fixed distance
from each other form one block, whose selectivity is the product of theirs. The intervals of the
remaining chains fall onto row groups like balls into urns (Cardenas).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.patterns.time_limits import UNBOUNDED
from cepheid.store.rates import Rates

FOOTER_US = 1.5
"""The cost of reading an entry of a segment's footer."""


class SymbolCost(NamedTuple):
    """The candidates of a symbol, its index reads, and its position in a match.

    ``entries`` are read in ``look_ups`` indexes. Symbols of one ``block`` have a fixed distance. A
    match reaches at most from ``before`` the symbol to ``after`` it.
    """

    candidates: int
    entries: int
    first: bool
    last: bool
    look_ups: int = 1
    block: int = 0
    before: int = UNBOUNDED
    after: int = UNBOUNDED


class StreamSize(NamedTuple):
    """The part of a stream that block statistics leave, and the window length (0 for none).

    ``groups`` of ``total`` row groups, ``share`` of its length ``span`` and of its ``rows``. All
    events of a row group are run if ``coarse``. The footer of a segment has entries for ``footer``
    columns of row groups. Gaps shorter than ``bridge`` are filled.
    """

    groups: int
    total: int
    share: float
    span: int
    within: int
    slide: int = 0
    rows: int = 1
    columns: int = 1
    segments: int = 1
    coarse: bool = False
    footer: int = 0
    bridge: int = 0


class ChainLength(NamedTuple):
    """The probability that a chain fits into a window, and its mean length if it does."""

    fits: float
    mean: float


def chain_probability(rates: Sequence[float], within: float) -> float:
    """Compute the probability that a chain of waiting times fits into the window.

    Examples
    --------
    >>> round(chain_probability([1.0], 1.0), 4), round(chain_probability([1.0, 1.0], 1.0), 4)
    (0.6321, 0.2642)
    """
    return chain_length(rates, within).fits


def chain_length(rates: Sequence[float], within: float) -> ChainLength:
    """Compute the probability that a chain fits into a window, and its mean length then.

    Examples
    --------
    >>> round(chain_length([1.0], 1.0).mean, 2)
    0.42
    """
    if not rates:
        return ChainLength(1.0, 0.0)
    if min(rates) <= 0.0:
        return ChainLength(0.0, 0.0)
    # A phase for each symbol; what has left the last one has found the whole chain.
    size = len(rates)
    moves = np.zeros((size + 1, size + 1))
    for phase, rate in enumerate(rates):
        moves[phase, phase] = -rate
        moves[phase, phase + 1] = rate
    quarter = _exponential(moves * (within / 4))
    powers = [np.eye(size + 1)]
    for _ in range(4):
        powers.append(powers[-1] @ quarter)
    shares = [float(np.clip(power[0, size], 0.0, 1.0)) for power in powers]
    fits = shares[-1]
    if fits <= 0.0:
        return ChainLength(0.0, 0.0)
    # The mean of X below w is w - the integral of F / F(w), by Simpson's rule.
    integral = within / 12 * (shares[0] + 4 * shares[1] + 2 * shares[2] + 4 * shares[3] + fits)
    return ChainLength(fits, min(max(within - integral / fits, 0.0), within))


def _exponential(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the exponential of a small matrix by scaling and squaring."""
    steps = max(0, int(np.ceil(np.log2(max(np.abs(matrix).max(), 1e-12)))) + 4)
    part = matrix / 2.0**steps
    term = result = np.eye(len(matrix))
    for n in range(1, 12):
        term = term @ part / n
        result = result + term
    for _ in range(steps):
        result = result @ result
    return result


def expected_groups(symbols: Sequence[SymbolCost], stream: StreamSize) -> float:
    """Estimate the number of row groups that the replay intervals of symbols touch."""
    return stream.groups * expected_share(symbols, stream, 1 / max(stream.groups, 1))


def expected_share(symbols: Sequence[SymbolCost], stream: StreamSize, extra: float) -> float:
    """Estimate the share of the stream in replay intervals, each ``extra`` longer."""
    if any(symbol.candidates == 0 for symbol in symbols):
        return 0.0
    longest = (
        min(stream.within or UNBOUNDED, symbols[-1].before, symbols[0].after) if symbols else 0
    )
    if not symbols or longest >= UNBOUNDED:
        return 1.0
    span = max(stream.span * stream.share, 1.0)
    found = _blocks(symbols, max(stream.rows * stream.share, 1.0))
    chain = chain_length([count / span for count in found[1:]], longest)
    intervals, within = found[0] * chain.fits, stream.within or longest
    if stream.slide:
        # Long chains lie across the edges of windows that overlap little.
        intervals *= min(1.0, (within - chain.mean) / stream.slide)
    ends = symbols[0].first + symbols[-1].last
    around = within + max(0.0, within - chain.mean - stream.slide)
    length = (around, float(within), chain.mean)[ends]
    length = min(length, symbols[0].before + chain.mean + symbols[-1].after)
    share = min(1 - 1e-12, length / span + extra)
    covered = float(-np.expm1(intervals * np.log1p(-share)))
    # Gaps have an exponential distribution, too; the short ones are filled.
    short = intervals * stream.bridge / span
    return covered + (1 - covered) * float(1 - np.exp(-short) * (1 + short))


def _blocks(symbols: Sequence[SymbolCost], rows: float) -> list[float]:
    """Compute the rate at which all symbols of each block occur together."""
    found: list[float] = []
    for place, symbol in enumerate(symbols):
        if place and symbol.block and symbol.block == symbols[place - 1].block:
            found[-1] *= min(1.0, symbol.candidates / rows)
        else:
            found.append(float(symbol.candidates))
    return found


def replay_cost(groups: float, share: float, stream: StreamSize, rates: Rates) -> float:
    """Estimate the cost of reading row groups and running a share of all events."""
    held = stream.rows / max(stream.total, 1)
    reading = groups * (rates.group + held * stream.columns * rates.value)
    reading += min(groups, stream.segments) * stream.footer * FOOTER_US
    return reading + stream.rows * share * rates.run


def query_cost(symbols: Sequence[SymbolCost], stream: StreamSize, rates: Rates) -> float:
    """Estimate the cost of a query that looks up some symbols; without any, of a full replay."""
    if not symbols:
        return replay_cost(stream.groups, stream.share, stream, rates)
    entries = sum(symbol.entries for symbol in symbols)
    opened = sum(symbol.look_ups for symbol in symbols) * stream.segments
    groups = expected_groups(symbols, stream)
    share = groups / max(stream.groups, 1)
    if not stream.coarse:
        share = expected_share(symbols, stream, 0.0)
    share *= stream.share
    looking = entries * rates.entry + opened * rates.look_up
    return replay_cost(groups, share, stream, rates) + looking
