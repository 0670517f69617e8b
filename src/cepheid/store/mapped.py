"""Memory-map the files of a store, and verify checksums before bytes are used.

Files are long and queries read little of them. So a file is cut into pages of 16 KiB, each with a
CRC-32, and a page is verified when it is first read. The checksums are in the frame at the start of
the file, or for events in the frame of their blocks. The manifest holds the digest of that frame,
so no file can be mistaken for another, and the manifest authenticates every byte.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cepheid.errors import DataError, Diagnostic
from cepheid.framing import FrameError, OtherFrameError, digest_of, split_frame
from cepheid.store.file_system import told, unusable
from cepheid.store.manifest import StoredFile

PAGE_BYTES = 1 << 14


def damaged(path: Path, why: str) -> DataError:
    """Build the error for a damaged file."""
    helps = ("`cepheid store verify` looks at all files of the store",)
    return DataError([Diagnostic("E542", f"`{path}` is damaged: {why}", helps=helps)])


def page_sums(data: Any) -> bytes:
    """Compute the checksums of all pages of some bytes."""
    view = memoryview(data).cast("B")
    begins = range(0, len(view), PAGE_BYTES)
    sums = [zlib.crc32(view[begin : begin + PAGE_BYTES]) for begin in begins]
    return np.array(sums, "<u4").tobytes()


def map_file(path: Path, file: StoredFile) -> pa.Buffer:
    """Map a file and check its length; its content is not verified yet.

    Raises
    ------
    DataError
        E542 if it is missing or has another length, E549 if it may not be read.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise damaged(path, "it is missing") from error
    except OSError as error:
        raise unusable(path, str(error.strerror)) from error
    if size != file.size:
        raise damaged(path, "its length is wrong")
    with told(path):
        # Mapped pages stay valid when the file is removed.
        return pa.memory_map(str(path)).read_buffer()


def map_frame(
    path: Path, file: StoredFile, name: str, version: int
) -> tuple[memoryview, memoryview]:
    """Verify the frame at the start of a file, and return its body and the bytes after it.

    Raises
    ------
    DataError
        E542 if the file is damaged or is not the one that was written.
    """
    data = map_file(path, file)
    try:
        found = split_frame(data, name, version)
    except OtherFrameError as error:
        raise damaged(path, "it is a file of another kind") from error
    except FrameError as error:
        raise damaged(path, str(error)) from error
    if digest_of(data) != file.digest:
        raise damaged(path, "it is another file than was written")
    return found


class Pages:
    """Bytes and the checksums of their pages; each page is verified once.

    Attributes
    ----------
    data
        The bytes.
    read_bytes
        The number of bytes verified so far.
    """

    def __init__(self, path: Path, data: Any, sums: bytes) -> None:
        self.data = memoryview(data).cast("B")
        self.read_bytes = 0
        self._path = path
        self._sums = np.frombuffer(sums, "<u4")
        self._checked = bytearray(len(self._sums))
        if len(self._sums) != -(-len(self.data) // PAGE_BYTES):
            raise damaged(path, "its length is wrong")

    def check(self, begin: int, end: int) -> None:
        """Verify the pages of a range of bytes.

        Raises
        ------
        DataError
            E542 if a checksum is wrong.
        """
        first, after = begin // PAGE_BYTES, -(-end // PAGE_BYTES)
        page = self._checked.find(0, first, after)
        while page >= 0:
            part = self.data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
            if zlib.crc32(part) != self._sums[page]:
                raise damaged(self._path, "a checksum is wrong")
            self.read_bytes += len(part)
            self._checked[page] = 1
            page = self._checked.find(0, page, after)

    def array(self, dtype: Any, count: int, begin: int) -> NDArray[Any]:
        """View a range of the bytes as an array, without verifying it."""
        return np.frombuffer(self.data, dtype, count, begin)
