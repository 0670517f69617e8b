"""A position in a list of tokens: what parsers look at, take and expect."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import NoReturn

from cepheid.errors import Diagnostic, QuerySyntaxError, Span
from cepheid.expressions.own import OwnFunction
from cepheid.kinds.row_pattern.lexer import Token, TokenKind

CLAUSES = ("PARTITION", "ORDER", "MEASURES", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE")

NESTING_MAX = 50
"""Deeper texts are refused, before Python's own stack ends."""

CHAIN_MAX = 100
"""Operators like + that may follow each other without parentheses."""

DIGITS_MAX = 19
"""Digits of the largest whole number of 64 bits."""


class Reader:
    """Tokens and a place among them; parsers move it forward.

    Parameters
    ----------
    tokens
        All tokens of the text; the last is END.
    text
        The text, for messages.
    place
        The number of the first token to read.
    functions
        The functions of the user's own that the text may call.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        text: str,
        place: int = 0,
        functions: Sequence[OwnFunction] = (),
    ) -> None:
        self.tokens = tokens
        self.text = text
        self.place = place
        self.depth = 0
        self.functions = functions

    @property
    def token(self) -> Token:
        """Return the token to read next."""
        return self.tokens[self.place]

    def ahead(self, count: int = 1) -> Token:
        """Return a token further on."""
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    @property
    def last_end(self) -> int:
        """Find where the token before this place ends."""
        return self.tokens[self.place - 1].span.end

    def span_from(self, start: int) -> Span:
        """Return the span from a place in the text to the end of the token read last."""
        return Span(start, max(start, self.last_end))

    def at_words(self, *words: str) -> bool:
        """Check whether the next tokens are these words."""
        return all(self.ahead(i).upper == word for i, word in enumerate(words))

    def take_words(self, *words: str) -> bool:
        """Move past these words if they come next, and return whether they did."""
        if not self.at_words(*words):
            return False
        self.place += len(words)
        return True

    def expect_words(self, *words: str) -> None:
        """Move past words that must come next."""
        for word in words:
            if not self.take_words(word):
                self.fail(f"`{word}`")

    def take_mark(self, *marks: str) -> str | None:
        """Move past a mark if it is one of these, and return it."""
        return self.take().value if self.token.is_mark(*marks) else None

    def expect_mark(self, mark: str) -> Token:
        """Move past a mark that must come next, and return it."""
        if not self.token.is_mark(mark):
            self.fail(f"`{mark}`")
        return self.take()

    def expect_name(self, what: str = "a name") -> Token:
        """Move past a name, with or without quotes, and return its token."""
        if self.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            self.fail(what)
        return self.take()

    def expect_whole(self) -> int:
        """Move past a whole number and return it."""
        token = self.token
        if token.kind is not TokenKind.NUMBER or not token.value.isdigit():
            self.fail("a whole number")
        return self.whole(self.take())

    def whole(self, token: Token) -> int:
        """Return the value of a token of digits; it has at most 64 bits."""
        # Python reads no more than some thousand digits, and takes long for them.
        digits = token.value.lstrip("0") or "0"
        value = int(digits) if len(digits) <= DIGITS_MAX else 1 << 63
        if value >> 63:
            message = "a whole number has more than 64 bits"
            helps = ("write a double: `1e30`",)
            found = Diagnostic("E601", message, token.span, helps=helps)
            raise QuerySyntaxError([found], self.text)
        return value

    def number(self, token: Token) -> int | float:
        """Return the value of a token that is a number."""
        if token.value.isdigit():
            return self.whole(token)
        value = float(token.value)
        if math.isinf(value):
            message = "a number is too large for a double"
            raise QuerySyntaxError([Diagnostic("E601", message, token.span)], self.text)
        return value

    def enter(self) -> None:
        """Count one more level of nesting."""
        self.depth += 1
        if self.depth > NESTING_MAX:
            message = f"the text is nested deeper than {NESTING_MAX} levels"
            raise QuerySyntaxError([Diagnostic("E601", message, self.token.span)], self.text)

    def check_chain(self, count: int) -> None:
        """Refuse a chain of operators that would make too deep a tree."""
        if count > CHAIN_MAX:
            message = f"more than {CHAIN_MAX} operators follow each other"
            helps = ("put parts of them into parentheses",)
            found = Diagnostic("E601", message, self.token.span, helps=helps)
            raise QuerySyntaxError([found], self.text)

    def leave(self) -> None:
        """Count one level of nesting less."""
        self.depth -= 1

    def fail(self, expected: str, help_: str = "") -> NoReturn:
        """Report that something else should come next."""
        token = self.token
        ends = token.kind is TokenKind.END
        shown = self.text[token.span.start : token.span.end]
        message = f"expected {expected}, " + ("and the text ends" if ends else f"not `{shown}`")
        found = Diagnostic(
            "E601", message, token.span, helps=(help_,) if help_ else _help_clause(token)
        )
        raise QuerySyntaxError([found], self.text)


def _help_clause(token: Token) -> tuple[str, ...]:
    """Return a help for a word that is nearly the first one of a clause."""
    if token.kind is not TokenKind.WORD or token.upper in CLAUSES:
        return ()
    near = difflib.get_close_matches(token.upper, CLAUSES, n=1, cutoff=0.75)
    return (f"did you mean `{near[0]}`?",) if near else ()


def folded(token: Token) -> str:
    """Return the name of a variable: without quotes, letters are capitals."""
    return token.value if token.kind is TokenKind.QUOTED else token.value.upper()
