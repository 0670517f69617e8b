"""SQL's texts over Arrow values, as long as they are within the limits.

How long a text gets is worked out before it is made: what doubles again and again fills any memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepheid.kinds.row_pattern.arrow import Value, pa, pc
from cepheid.memory_limits import current, too_much_state


def is_text(kind: Any) -> bool:
    """Return whether a type holds text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def as_text(value: Value) -> Value:
    """Return a value as text."""
    if is_text(value.type):
        return value
    if pa.types.is_dictionary(value.type):
        return value.cast(pa.string())
    if pa.types.is_list(value.type) or pa.types.is_binary(value.type):
        message = f"a value of type {value.type} is no text"
        raise TypeError(message)
    return value.cast(pa.string())


class Room:
    """Room for texts: a text within a text within a text grows beyond every memory."""

    def __init__(self, what: str = "bytes of text") -> None:
        self._left, self._what = current().state, what

    def take(self, size: int) -> None:
        """Use some bytes of it.

        Raises
        ------
        DataError
            E519
        """
        self._left -= size
        if self._left < 0:
            too_much_state(self._what, current().state, verb="makes")

    def join(self, mark: str, texts: list[str]) -> str:
        """Put texts together."""
        self.take(sum(map(byte_size, texts)) + byte_size(mark) * len(texts))
        return mark.join(texts)


def byte_size(text: str) -> int:
    """Return how many bytes a text may take, in memory or in Arrow, without a look at it."""
    return len(text) if text.isascii() else 4 * len(text)


def check_length(parts: Sequence[Value]) -> None:
    """Refuse to put texts together that are too long: twice as long, again and again, is for ever.

    Raises
    ------
    DataError
        E519
    """
    rows = max((len(p) for p in parts if not isinstance(p, pa.Scalar)), default=1)
    total = sum(
        rows * (0 if p.as_py() is None else p.as_buffer().size)
        if isinstance(p, pa.Scalar)
        else pc.sum(pc.binary_length(p).cast(pa.int64())).as_py() or 0
        for p in parts
    )
    Room().take(total)


def check_repeated(values: Sequence[Value], rows: int = 1) -> None:
    """Refuse to write a long text into every row, where it was one for all of them.

    Raises
    ------
    DataError
        E519
    """
    rows = max((len(v) for v in values if not isinstance(v, pa.Scalar)), default=rows)
    for value in values:
        if isinstance(value, pa.Scalar) and is_text(value.type) and value.is_valid:
            Room().take(rows * value.as_buffer().size)


def choose(condition: Value, then: Value, other: Value) -> Value:
    """Return one of two values of one type for every row."""
    check_repeated((condition, then, other))
    return pc.if_else(condition, then, other)


def concat(*values: Value) -> Value:
    """Return texts put together, NULL if one of them is."""
    parts = [as_text(value).cast(pa.string()) for value in values]
    check_length(parts)
    return pc.binary_join_element_wise(*parts, pa.scalar(""), null_handling="emit_null")
