"""The parts of a journal: bytes in, compressed bytes with a checksum out, and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cepheid.framing import frame, unframe

_PART = "part"
_CODEC = pa.Codec("zstd")


def write_part(data: bytes) -> bytes:
    """Compress the bytes of a part."""
    packed = _CODEC.compress(data, asbytes=True)
    return frame(_PART, 1, len(data).to_bytes(8, "little") + packed)


def read_part(part: Any) -> bytes:
    """Return the bytes of a part; FrameError if it is damaged."""
    body = unframe(part, _PART, 1)
    size = int.from_bytes(body[:8], "little")
    return _CODEC.decompress(pa.py_buffer(body[8:]), size, asbytes=True)
