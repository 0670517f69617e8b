"""Tell whether bytes are UTF-8."""

from __future__ import annotations

import numpy as np

from cepheid.kernels.tiers import kernel

_ASCII = 128


@kernel(borrows=True)
def is_utf8(data, place, end):
    """Check whether bytes are UTF-8, without surrogates and longer forms than necessary."""
    while place < end:
        byte = np.int64(data[place])
        if byte < _ASCII:
            place += 1
            continue
        length, low, high = 0, 0x80, 0xBF
        if byte >= 0xC2 and byte <= 0xDF:
            length = 1
        elif byte >= 0xE0 and byte <= 0xEF:
            length = 2
            low = 0xA0 if byte == 0xE0 else low
            high = 0x9F if byte == 0xED else high
        elif byte >= 0xF0 and byte <= 0xF4:
            length = 3
            low = 0x90 if byte == 0xF0 else low
            high = 0x8F if byte == 0xF4 else high
        if length == 0 or place + length >= end:
            return False
        if data[place + 1] < low or data[place + 1] > high:
            return False
        for ahead in range(2, length + 1):
            if data[place + ahead] < 0x80 or data[place + ahead] > 0xBF:
                return False
        place += length + 1
    return True
