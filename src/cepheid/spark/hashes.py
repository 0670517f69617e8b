"""Spark's ``hash`` of whole Arrow columns, so that tasks find the bucket of a key as Spark does.

Murmur3 of 32 bits, column after column: the hash of a column is the seed of the next one, and NULL
leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from cepheid.spark.murmur import SEED

Words = NDArray[np.uint32]


def can_hash(kind: pa.DataType) -> bool:
    """Check whether columns of a type can be hashed here; texts may be in dictionaries."""
    if pt.is_dictionary(kind):
        return pt.is_string(kind.value_type)
    whole = pt.is_signed_integer(kind) or pt.is_boolean(kind) or pt.is_date32(kind)
    micros = pt.is_timestamp(kind) and kind.unit == "us"
    return whole or micros or pt.is_float32(kind) or pt.is_float64(kind) or pt.is_string(kind)


def buckets_of_keys(columns: Sequence[pa.Array[Any]], count: int) -> NDArray[np.int32]:
    """Return the bucket of every row: what ``pmod(hash(...), count)`` is in Spark."""
    found = hashes_of_keys(columns)
    if count & (count - 1) == 0:
        return found & np.int32(count - 1)  # A division would take longer than the hash.
    return np.mod(found, np.int32(count))


def hashes_of_keys(columns: Sequence[pa.Array[Any]]) -> NDArray[np.int32]:
    """Return the hash of every row: what ``hash(...)`` is in Spark."""
    found = np.full(len(columns[0]), SEED, np.uint32)
    for column in columns:
        mixed = _hash_column(column, found)
        found = (
            np.where(np.asarray(pc.is_valid(column)), mixed, found) if column.null_count else mixed
        )
    return found.view(np.int32)


def _hash_column(column: pa.Array[Any], seed: Words) -> Words:
    kind = column.type
    if pt.is_string(kind) or pt.is_dictionary(kind):
        return _hash_texts(column, seed)
    filled = column.fill_null(False) if pt.is_boolean(kind) else column  # a value
    if pt.is_floating(kind):
        # One NaN and one zero, as doubles (§4.6).
        values = np.asarray(filled.cast(pa.float64()).fill_null(0.0)) + 0.0
        values[np.isnan(values)] = np.nan
        return _hash_longs(values.view(np.int64), seed)
    if pt.is_timestamp(kind) or pt.is_int64(kind):
        return _hash_longs(np.asarray(filled.cast(pa.int64()).fill_null(0)), seed)
    return _hash_ints(np.asarray(filled.cast(pa.int32()).fill_null(0)).view(np.uint32), seed)


def _hash_ints(values: Words, seed: Words) -> Words:
    return _finish(_mix(seed, values), np.uint32(4))


def _hash_longs(values: NDArray[np.int64], seed: Words) -> Words:
    words = np.ascontiguousarray(values).view(np.uint32)
    return _finish(_mix(_mix(seed, words[::2]), words[1::2]), np.uint32(8))


def _hash_texts(column: Any, seed: Words) -> Words:
    """Hash texts, each distinct one once where all have one seed."""
    if len(seed) and (seed == seed[0]).all():
        numbered = column
        if not pt.is_dictionary(column.type):
            numbered = column.dictionary_encode()
        texts = numbered.dictionary
        each = _hash_bytes(texts, np.full(len(texts), seed[0], np.uint32))
        codes = np.asarray(numbered.indices.fill_null(0))
        return each[codes] if len(each) else seed
    plain = column.dictionary_decode() if pt.is_dictionary(column.type) else column
    return _hash_bytes(plain.fill_null(""), seed)


def _hash_bytes(texts: pa.Array[Any], seed: Words) -> Words:
    """Hash the bytes of texts: words of four bytes, then the rest byte by byte."""
    buffers: list[Any] = texts.buffers()
    _, offsets, data = buffers
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    begins, lengths = ends[:-1].astype(np.int64), np.diff(ends)
    whole, found = lengths & ~3, seed.copy()
    for place in range(0, int(whole.max(initial=0)), 4):
        rows = np.flatnonzero(whole > place)
        first = begins[rows] + place
        word = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            word |= raw[first + byte].astype(np.uint32) << np.uint32(8 * byte)
        found[rows] = _mix(found[rows], word)
    for place in range(3):
        rows = np.flatnonzero(lengths - whole > place)
        # Bytes have a sign in Java.
        rest = raw[begins[rows] + whole[rows] + place].view(np.int8).astype(np.int32)
        found[rows] = _mix(found[rows], rest.view(np.uint32))
    return _finish(found, lengths.astype(np.uint32))


def _mix(found: Words, word: Words) -> Words:
    mixed = _rotate(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate(found ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(found: Words, length: Any) -> Words:
    found = found ^ length
    found = (found ^ found >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    found = (found ^ found >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return found ^ found >> np.uint32(16)


def _rotate(words: Words, bits: int) -> Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
