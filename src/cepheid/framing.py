"""Frame stored bytes with a checksum and a version: one format for everything on disk.

A frame is a line of text, padded to a multiple of 64 bytes, and a body::

    CEPHEID manifest 3 5120 9f86d081884c7d659a2feaa0c55ad015

The line has the name and the version of the format, the length of the body and a digest of all of
that. A body is parsed only after its digest was verified, so parsers need not handle damaged input.
The padding aligns the arrays in a body.

The digest is SHA-256, cut to 128 bits. Processors have instructions for it: it is twice as fast as
BLAKE2b, 1.6 GB/s. Where a file is read in parts, the body of its frame holds their CRC-32 (4 GB/s):
it finds every changed bit, and every burst of 32 bits.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

MAGIC = b"CEPHEID "
DIGEST_TEXT = 32
_ALIGNED = 64
_LINE_MAX = 4 * _ALIGNED
_LINE = re.compile(rb"CEPHEID ([a-z]+) (\d{1,9}) (\d{1,18}) ([0-9a-f]{32}) *\n")


class FrameError(ValueError):
    """The bytes are damaged: changed, truncated, or not a frame."""


class NoFrameError(FrameError):
    """The bytes do not start with a frame: another program wrote them, or an old version."""


class OtherFrameError(FrameError):
    """The bytes are intact, but of another format or version.

    Attributes
    ----------
    name, version
        The name and the version of the frame.
    """

    def __init__(self, name: str, version: int, wanted: int) -> None:
        super().__init__(f"it has version {version}, this Cepheid reads {wanted}")
        self.name, self.version = name, version


def frame(name: str, version: int, body: Any) -> bytes:
    """Prepend the line with its digest to a body.

    Examples
    --------
    >>> bytes(unframe(frame("example", 1, b"body"), "example", 1))
    b'body'
    """
    return b"".join([_line(name, version, body), body])


def digest_of(data: Any) -> str:
    """Read the digest in the line of a frame, which identifies all of it."""
    line = bytes(memoryview(data)[:_LINE_MAX]).partition(b"\n")[0]
    return line.rstrip()[-DIGEST_TEXT:].decode("ascii", "replace")


def unframe(data: Any, name: str, version: int) -> memoryview:
    """Verify a frame and return its body, without a copy.

    Raises
    ------
    OtherFrameError
        If this is a frame of another name or version.
    FrameError
        If it is not a frame, or damaged.
    """
    body, rest = split_frame(data, name, version)
    if len(rest):
        message = "there are extra bytes after its end"
        raise FrameError(message)
    return body


def split_frame(data: Any, name: str, version: int) -> tuple[memoryview, memoryview]:
    """Verify a frame and return its body and the bytes after it; raises as ``unframe``."""
    view = memoryview(data).cast("B")
    start = bytes(view[:_LINE_MAX])
    if not start.startswith(MAGIC):
        message = "it does not begin with a header of this version of Cepheid"
        raise NoFrameError(message)
    found = _LINE.match(start)
    if found is None:
        message = "its first line is damaged"
        raise FrameError(message)
    kind, number, size = found[1].decode(), int(found[2]), int(found[3])
    begin = found.end()
    body = view[begin : begin + size]
    if len(body) != size:
        message = "it is truncated"
        raise FrameError(message)
    # The line is compared as a whole: there is one way to write it.
    if _line(kind, number, body) != found[0]:
        message = "its checksum is wrong"
        raise FrameError(message)
    if (kind, number) != (name, version):
        raise OtherFrameError(kind, number, version)
    return body, view[begin + size :]


def _line(name: str, version: int, body: Any) -> bytes:
    start = f"{name} {version} {memoryview(body).nbytes}".encode()
    digest = hashlib.sha256(start + b"\n")
    digest.update(body)
    line = MAGIC + start + b" " + digest.hexdigest()[:DIGEST_TEXT].encode()
    return line.ljust(-(-(len(line) + 1) // _ALIGNED) * _ALIGNED - 1) + b"\n"
