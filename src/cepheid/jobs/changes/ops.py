"""The operations of a changelog: texts in, numbers out (§18.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

BAD, INSERT, UPDATE, BEFORE, AFTER, DELETE = -1, 0, 1, 2, 3, 4

TEXTS = {
    **dict.fromkeys(("insert", "i", "create", "c", "read", "r", "+i"), INSERT),
    **dict.fromkeys(("update", "u"), UPDATE),
    **dict.fromkeys(("update_preimage", "-u"), BEFORE),
    **dict.fromkeys(("update_postimage", "+u"), AFTER),
    **dict.fromkeys(("delete", "d", "-d"), DELETE),
}
"""The texts of operations, in lower case."""

SPELLINGS = "insert, update, delete, c, u, d, r, update_preimage, update_postimage, +I, -U, +U, -D"
"""The same for messages."""


def read_ops(column: pa.ChunkedArray[Any]) -> NDArray[np.int8]:
    """Return the operation of every change, BAD for any other text.

    Examples
    --------
    >>> read_ops(pa.chunked_array([["c", "Delete", None, "x"]])).tolist()
    [0, 4, -1, -1]
    """
    found = np.empty(len(column), np.int8)
    encoded: Any = column
    if not pa.types.is_dictionary(column.type):
        encoded = column.dictionary_encode()
    offset = 0
    for chunk in encoded.chunks:
        table = [TEXTS.get(str(text).lower(), BAD) for text in chunk.dictionary.to_pylist()]
        codes = chunk.indices.cast(pa.int64()).fill_null(len(table))
        numbers = np.array([*table, BAD], np.int8)
        found[offset : offset + len(chunk)] = numbers[codes.to_numpy(zero_copy_only=False)]
        offset += len(chunk)
    return found
