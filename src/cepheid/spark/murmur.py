"""The hash by which Spark distributes rows: Murmur3 of 32 bits with a fixed seed."""

from __future__ import annotations

from functools import cache

SEED = 42
_MASK = (1 << 32) - 1


def hash_int(value: int) -> int:
    """Hash an integer of 32 bits as Spark's ``hash`` does.

    Examples
    --------
    >>> hash_int(0), hash_int(1)
    (933211791, -559580957)
    """
    mixed = _rotate((value & _MASK) * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    found = (_rotate(SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4  # The number of bytes.
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _MASK


@cache
def values_for_partitions(count: int, base: int = 0) -> tuple[int, ...]:
    """Find, for each partition, the first integer from a base on that Spark sends to it."""
    found: dict[int, int] = {}
    value = base
    while len(found) < count:
        found.setdefault(hash_int(value) % count, value)
        value += 1
    return tuple(found[number] for number in range(count))
