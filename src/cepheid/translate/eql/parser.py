"""The text of an EQL query in, its tree out.

The grammar:

query      := (events | several) ("|" pipe)*
events     := (NAME | TEXT | "any") "where" condition
several    := ("sequence" | "join" | "sample") [by] [with] [by] stage+ ["until" stage]
stage      := ["!"] "[" events "]" ("fork" ["=" bool] | by | "with" "runs" "=" NUMBER)*
by         := "by" expression ("," expression)*
with       := "with" "maxspan" "=" SPAN
condition  := and ("or" and)*          and := not ("and" not)*        not := "not" not | test
test       := sum [comparison sum | ["not"] ("in" | ":" | "like" | "regex") ["~"] list]
sum        := product (("+" | "-") product)*    product := sign (("*" | "/" | "%") sign)*
primary    := literal | field | NAME ["~"] "(" arguments ")" | "(" condition ")"
        | ("descendant" | "child" | "event") "of" "[" events "]"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from cepheid.translate.eql import tree
from cepheid.translate.eql.lexer import Token, text_value, tokens_of, unexpected
from cepheid.translate.translated import CannotTranslateError

NESTING_MAX = 40
_SPANS_US = {
    "micros": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_RELATIONS = ("descendant", "child", "event")
_COMPARISONS = ("==", "!=", "=", "<=", ">=", "<", ">", ":")
_LISTED = ("in", "like", "regex", ":")
_WORDS = {"true": True, "false": False, "null": None}


def parse_eql(text: str) -> tree.EqlQuery:
    """Parse a query.

    Raises
    ------
    CannotTranslateError
        If the text is no query, with the place.
    """
    return _Parser(text).query()


class _Parser:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._place, self._depth = text, tokens_of(text), 0, 0

    # Tokens ------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    @property
    def _after(self) -> Token:
        """The token after the next one."""
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    def _is(self, *words: str) -> bool:
        token = self._next
        return token.kind in ("NAME", "MARK") and token.text.lower() in words

    def _take(self, *words: str) -> Token | None:
        if not self._is(*words):
            return None
        self._place += 1
        return self._tokens[self._place - 1]

    def _need(self, *words: str) -> Token:
        found = self._take(*words)
        if found is None:
            self._fail(f"{' or '.join(f'`{word}`' for word in words)} is missing")
        return found

    def _kind(self, kind: str, what: str) -> Token:
        if self._next.kind != kind:
            self._fail(f"{what} is missing")
        self._place += 1
        return self._tokens[self._place - 1]

    def _fail(self, what: str) -> NoReturn:
        found = self._next.text or "the end"
        raise unexpected(self._text, self._next.at, f"{what} before `{found}`")

    # Queries -----------------------------------------------------------------------------

    def query(self) -> tree.EqlQuery:
        """Read the whole query."""
        several = self._is("sequence", "join", "sample") and self._after.text.lower() != "where"
        source = self._several() if several else self._events()
        pipes = []
        while self._take("|"):
            pipes.append(self._pipe())
        if self._next.kind != "END":
            self._fail("the query goes on")
        return tree.EqlQuery(source, tuple(pipes))

    def _events(self) -> tree.Events:
        token = self._next
        if token.kind not in ("NAME", "TEXT"):
            self._fail("the category of events is missing")
        self._place += 1
        category = text_value(token) if token.kind == "TEXT" else token.text.strip("`")
        self._need("where")
        any_ = token.kind == "NAME" and category.lower() == "any"
        return tree.Events("" if any_ else category, self._condition())

    def _several(self) -> tree.Several:
        kind = self._need("sequence", "join", "sample").text.lower()
        keys, maxspan = self._by(), None
        if self._take("with"):
            self._need("maxspan")
            self._need("=")
            maxspan = self._span()
        keys = keys or self._by()
        stages = []
        while self._is("[", "![", "!"):
            stages.append(self._stage())
        until = self._stage() if self._take("until") else None
        if not stages:
            self._fail("the events in brackets are missing")
        return tree.Several(kind, keys, tuple(stages), until, maxspan)

    def _stage(self) -> tree.Stage:
        missing = self._take("![", "!")
        if missing is None or missing.text == "!":
            self._need("[")
        events = self._events()
        self._need("]")
        keys: tuple[tree.Expression, ...] = ()
        runs, fork = 1, False
        while self._is("by", "with", "fork"):
            if self._is("by"):
                keys = self._by()
            elif self._take("fork"):
                fork = not self._take("=") or self._need("true", "false").text.lower() == "true"
            else:
                self._need("with")
                self._need("runs")
                self._need("=")
                runs = int(self._kind("NUMBER", "a number").text)
        return tree.Stage(events, keys, runs, missing is not None, fork)

    def _by(self) -> tuple[tree.Expression, ...]:
        return self._listed() if self._take("by") else ()

    def _listed(self) -> tuple[tree.Expression, ...]:
        found = [self._condition()]
        while self._take(","):
            found.append(self._condition())
        return tuple(found)

    def _span(self) -> int:
        token = self._kind("SPAN", "a length of time such as 1h")
        unit = token.text.lstrip("0123456789")
        if unit not in _SPANS_US:
            self._fail(f"times have no unit `{unit}`")
        return int(token.text.removesuffix(unit)) * _SPANS_US[unit]

    def _pipe(self) -> tree.Pipe:
        name = self._kind("NAME", "the name of a pipe").text.lower()
        found: list[tree.Expression] = []
        # The package lets arguments follow without commas.
        while self._next.kind != "END" and not self._is("|"):
            found.append(self._condition())
            self._take(",")
        return tree.Pipe(name, tuple(found))

    # Expressions -------------------------------------------------------------------------

    def _condition(self) -> tree.Expression:
        self._depth += 1
        if self._depth > NESTING_MAX:
            message = f"the query is nested more than {NESTING_MAX} levels deep"
            raise CannotTranslateError(message)
        found = self._logic("or", lambda: self._logic("and", self._not))
        self._depth -= 1
        return found

    def _logic(self, operator: str, operand: Callable[[], tree.Expression]) -> tree.Expression:
        found = [operand()]
        while self._take(operator):
            found.append(operand())
        return found[0] if len(found) == 1 else tree.Logic(operator, tuple(found))

    def _not(self) -> tree.Expression:
        opposite = False
        while self._take("not"):
            opposite = not opposite
        found = self._test()
        return tree.Not(found) if opposite else found

    def _test(self) -> tree.Expression:
        left = self._sum()
        opposite = False
        if self._is("not") and self._after.text.lower() in _LISTED:
            self._place += 1
            opposite = True
        found = self._tested(left)
        return tree.Not(found) if opposite else found

    def _tested(self, left: tree.Expression) -> tree.Expression:
        word = self._take("in", "like", "regex", ":")
        if word is not None:
            operator = word.text.lower()
            any_case = self._take("~") is not None or operator == ":"
            if self._take("("):
                items = self._listed()
                self._need(")")
            else:
                items = (self._sum(),)
            return tree.OneOf(operator, left, items, any_case)
        comparison = self._take(*_COMPARISONS)
        if comparison is None:
            return left
        operator = "==" if comparison.text == "=" else comparison.text
        return tree.Binary(operator, left, self._sum())

    def _sum(self) -> tree.Expression:
        return self._arithmetic(("+", "-"), lambda: self._arithmetic(("*", "/", "%"), self._sign))

    def _arithmetic(
        self, operators: tuple[str, ...], operand: Callable[[], tree.Expression]
    ) -> tree.Expression:
        found = operand()
        while token := self._take(*operators):
            found = tree.Binary(token.text, found, operand())
        return found

    def _sign(self) -> tree.Expression:
        negative = False
        while sign := self._take("-", "+"):
            negative ^= sign.text == "-"
        operand = self._primary()
        if not negative:
            return operand
        if isinstance(operand, tree.Literal) and isinstance(operand.value, int | float):
            return tree.Literal(-operand.value)
        return tree.Negative(operand)

    def _primary(self) -> tree.Expression:
        token = self._next
        if self._take("("):
            found = self._condition()
            self._need(")")
            return found
        if token.kind in ("TEXT", "RAW"):
            self._place += 1
            return tree.Literal(text_value(token))
        if token.kind == "NUMBER":
            self._place += 1
            return tree.Literal(int(token.text) if token.text.isdigit() else float(token.text))
        if token.kind == "NAME" and token.text.lower() in _WORDS:
            self._place += 1
            return tree.Literal(_WORDS[token.text.lower()])
        if self._is(*_RELATIONS) and self._after.text.lower() == "of":
            self._place += 2
            self._need("[")
            events = self._events()
            self._need("]")
            return tree.Related(token.text.lower(), events)
        return self._field_or_call()

    def _field_or_call(self) -> tree.Expression:
        optional = self._take("?") is not None
        token = self._kind("NAME", "a field or a value")
        any_case = self._is("~") and self._after.text == "("
        if any_case:
            self._place += 1
        if self._take("("):
            arguments = () if self._is(")") else self._listed()
            self._need(")")
            return tree.Call(token.text, arguments, any_case)
        parts, places = [token.text.strip("`")], []
        while self._is(".") or (self._is("[") and self._after.kind == "NUMBER"):
            if self._take("."):
                parts.append(self._kind("NAME", "a part of a field").text.strip("`"))
                continue
            self._need("[")
            places.append(int(self._kind("NUMBER", "the number of an element").text))
            self._need("]")
        return tree.Field(".".join(parts), tuple(places), optional)
