"""Frames: what was written comes back, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.framing import (
    FrameError,
    NoFrameError,
    OtherFrameError,
    digest_of,
    frame,
    split_frame,
    unframe,
)


@given(st.binary(max_size=300), st.integers(0, 10**6), st.binary(max_size=9))
def test_what_was_framed_comes_back(body: bytes, version: int, more: bytes) -> None:
    data = frame("example", version, body)
    assert bytes(unframe(data, "example", version)) == body
    found, rest = split_frame(data + more, "example", version)
    assert (bytes(found), bytes(rest)) == (body, more)
    assert (len(data) - len(body)) % 64 == 0
    assert data.split()[4].decode() == digest_of(data)


def test_every_changed_bit_is_found() -> None:
    data = frame("example", 12, b"some body\n" * 4)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            unframe(changed, "example", 12)


def test_every_cut_is_found() -> None:
    data = frame("example", 1, b"some body")
    for size in range(len(data)):
        with pytest.raises(FrameError):
            unframe(data[:size], "example", 1)
    with pytest.raises(FrameError, match="after its end"):
        unframe(data + b" ", "example", 1)


def test_other_frames_are_told_apart() -> None:
    data = frame("example", 1, b"")
    for name, version in (("other", 1), ("example", 2)):
        with pytest.raises(OtherFrameError) as caught:
            unframe(data, name, version)
        assert (caught.value.name, caught.value.version) == ("example", 1)
    with pytest.raises(NoFrameError):
        unframe(b"{}", "example", 1)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_and_no_other_exception(data: bytes) -> None:
    for start in (b"", b"CEPHEID ", b"CEPHEID example 1 5 " + b"a" * 32):
        with pytest.raises(FrameError):
            unframe(start + data, "example", 1)
