"""Room for texts and lists: how long they get is worked out before they are made.

What doubles again and again fills any memory.
"""

from __future__ import annotations

from cepheid.memory_limits import current, too_much_state


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

    def has(self, size: int) -> bool:
        """Check whether so many bytes are left."""
        return size <= self._left

    def join(self, mark: str, texts: list[str]) -> str:
        """Put texts together."""
        self.take(sum(map(byte_size, texts)) + byte_size(mark) * len(texts))
        return mark.join(texts)


def byte_size(text: str) -> int:
    """Bound the bytes that a text may take, in memory or in Arrow, without a look at it."""
    return len(text) if text.isascii() else 4 * len(text)
