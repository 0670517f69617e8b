"""The linear system of a program as dense matrices, one for every code.

A vector has one entry for every start configuration, then one for every configuration. An event of
a code multiplies it by ``kept + gained``: what stays or moves, and what takes the event on. Only
the second adds the event's weights and values:

    count'  = (kept + gained) count
    sum'    = (kept + gained) sum + weight * (gained count)
    least'  = least over kept and gained, and the value wherever (gained count) is not zero

So one kernel serves all semantics and negation. One more code at the end is the identity; it pads
words of codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cepheid.language import tree

if TYPE_CHECKING:
    from cepheid.kinds.trend.program.program import Program

DIMENSION_MAX = 8
"""Rows of a matrix on the device; larger systems stay on the CPU."""

CODES_MAX = 64
"""Codes of a system on the device: their matrices stay in shared memory."""


SHARED_BYTES_MAX = 48 << 10
"""Shared memory of a block of threads without opting in to more."""


class System(NamedTuple):
    """A program for the device.

    Attributes
    ----------
    kept, gained
        (code, row, column) zeros and ones; the last code is the identity.
    starts
        The number of start configurations; rows and columns below are theirs.
    opening
        (row,) whether a match may begin there.
    weighs, values
        (part, row) whether the weight of a part counts there; (extreme, row) likewise.
    steady
        Whether matches never leave a configuration (skip-till-any-match without negation).
    """

    kept: NDArray[np.float64]
    gained: NDArray[np.float64]
    starts: int
    opening: NDArray[np.bool_]
    weighs: NDArray[np.bool_]
    values: NDArray[np.bool_]
    steady: bool

    @property
    def dimension(self) -> int:
        """Return the number of rows."""
        return int(self.kept.shape[1])

    @property
    def identity(self) -> int:
        """Return the code of the identity matrix."""
        return len(self.kept) - 1


def shared_bytes(system: System) -> int:
    """Compute the shared memory of the tables of a system."""
    return 2 * system.kept.size * 8


def system_of(program: Program, wcol: NDArray[np.int32], xcol: NDArray[np.int32]) -> System | None:
    """Convert a program to matrices, or return None if it is too large for the device."""
    tables, starts, size = program.tables(), program.start_size, program.size
    codes, dimension = len(tables.target_ptr) - 1, starts + size
    if dimension > DIMENSION_MAX or codes + 1 > CODES_MAX:
        return None
    if 2 * (codes + 1) * dimension * dimension * 8 > SHARED_BYTES_MAX:
        return None
    kept = np.zeros((codes + 1, dimension, dimension))
    gained = np.zeros_like(kept)
    letters = program.letters_of_codes()
    for code in range(codes):
        for t in range(tables.target_ptr[code], tables.target_ptr[code + 1]):
            row = starts + tables.target[t]
            for source in tables.source[tables.source_ptr[t] : tables.source_ptr[t + 1]]:
                gained[code, row, starts + source] += 1
            gained[code, row, :starts] += tables.start[t]
        kept[code] = _kept(program, code, int(letters[code]))
    kept[codes] = np.eye(dimension)
    if kept.max(initial=0) > 1 or gained.max(initial=0) > 1:
        return None
    weighs = np.zeros((wcol.shape[1], dimension), np.bool_)
    values = np.zeros((xcol.shape[1], dimension), np.bool_)
    weighs[:, starts:] = wcol[tables.variable].T >= 0
    values[:, starts:] = xcol[tables.variable].T >= 0
    steady = program.semantics is tree.Semantics.ANY_MATCH and not program.guarded
    opening = np.asarray(gained[:, :, :starts].any((0, 2)))
    return System(kept, gained, starts, opening, weighs, values, steady)


def _kept(program: Program, code: int, letter: int) -> NDArray[np.float64]:
    """Build the matrix of matches that stay or move at an event of a code: clear, then move."""
    tables, starts, size = program.tables(), program.start_size, program.size
    stays = np.ones(size)
    if program.semantics is tree.Semantics.CONTIGUOUS:
        stays[~tables.finished] = 0
    cleared = tables.clear[tables.clear_ptr[code] : tables.clear_ptr[code + 1]]
    stays[cleared] = 0
    moved = np.diag(stays)
    for m in range(tables.move_ptr[letter], tables.move_ptr[letter + 1]):
        moved[tables.move_from[m], tables.move_from[m]] = 0
    for m in range(tables.move_ptr[letter], tables.move_ptr[letter + 1]):
        if tables.move_to[m] >= 0:
            moved[tables.move_to[m], tables.move_from[m]] += stays[tables.move_from[m]]
    kept = np.zeros((starts + size, starts + size))
    kept[starts:, starts:] = moved
    for start, after in enumerate(tables.start_next[letter]):
        if after >= 0:
            kept[after, start] = 1
    return kept
