"""A SQL text in which some places were written anew, and where its parts stood before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from cepheid.errors import Span
from cepheid.kinds.row_pattern.lexer import Token, tokenize


class Piece(NamedTuple):
    """A part of a text: what is written, and its place in the original text.

    ``kept`` is a part that is written as it was; else the whole place stands for all of it.
    """

    text: str
    place: Span
    kept: bool = True


class Rendered(NamedTuple):
    """A text made of pieces; messages about it point into the original text."""

    pieces: tuple[Piece, ...]
    original: str

    @staticmethod
    def of(text: str) -> Rendered:
        """Take a text as it is."""
        return Rendered((Piece(text, Span(0, len(text))),), text)

    @property
    def text(self) -> str:
        """Join the pieces."""
        return "".join(piece.text for piece in self.pieces)

    def tokens(self) -> list[Token]:
        """Read the tokens, each with its place in the original text.

        Examples
        --------
        >>> original = "SELECT * FROM (t) WHERE x"
        >>> pieces = Piece("v ", Span(14, 17), kept=False), Piece("WHERE x", Span(18, 25))
        >>> [(t.value, t.span.start, t.span.end) for t in Rendered(pieces, original).tokens()]
        [('v', 14, 17), ('WHERE', 18, 23), ('x', 24, 25), ('', 25, 25)]
        """
        begins = [0]
        for piece in self.pieces:
            begins.append(begins[-1] + len(piece.text))
        return [
            msgspec.structs.replace(token, span=self._before(token.span, begins))
            for token in tokenize(self.text)
        ]

    def _before(self, span: Span, begins: list[int]) -> Span:
        at = min(bisect_right(begins, span.start), len(self.pieces)) - 1
        piece = self.pieces[at]
        if not piece.kept:
            return piece.place
        start = piece.place.start + span.start - begins[at]
        return Span(start, start + span.end - span.start)


def joined(parts: Iterable[Piece], original: str) -> Rendered:
    """Put pieces together; empty ones are left out."""
    return Rendered(tuple(piece for piece in parts if piece.text), original)
