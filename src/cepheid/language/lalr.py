"""Parse by LALR tables: tokens and tables in, what the callbacks of the rules return out.

Lark makes the tables from the grammar (``build_tables.py``). Lark can run them too, but takes
longer to load than a small query takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import msgspec

END = "$END"
"""The terminal after the last token."""


class Token(str):
    """A piece of a text, with its terminal and its place."""

    __slots__ = ("__dict__", "end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int

    def __new__(cls, terminal: str, value: str, start_pos: int, end_pos: int) -> Token:
        """Make a token of a text."""
        made = super().__new__(cls, value)
        made.type, made.start_pos, made.end_pos = terminal, start_pos, end_pos
        return made


class UnexpectedTokenError(Exception):
    """A token cannot stand where it does."""

    def __init__(self, token: Token, accepted: set[str]) -> None:
        super().__init__(token)
        self.token, self.accepted = token, accepted


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """A rule of the grammar, and how its children become one value."""

    origin: str
    size: int
    """The number of its children."""
    callback: str
    """The method that gets the children; empty if they join those of a parent, or if one is passed.
    """
    joined: list[int]
    """The places of children that are such lists."""
    is_passed_on: bool
    """Whether a single child takes the place of the rule."""


class Tables(msgspec.Struct, frozen=True):
    """The tables of a grammar."""

    made_from: str
    starts: dict[str, tuple[int, int]]
    """The first and the last state, by the rule to start with."""
    states: list[dict[str, int]]
    """The next state after a terminal or a rule; a negative number -n - 1 ends rule n."""
    rules: list[Rule]


class Following(NamedTuple):
    """The tokens of an unfinished text, and the terminals that may come next."""

    tokens: list[Token]
    accepted: set[str]


Accepted = Callable[[], Mapping[str, int]]
_Shape = tuple[int, str, bool, bool, frozenset[int], Callable[[list[Any]], Any] | None]
"""Of a rule: size, origin, two ways to pass on an only child, joined children, callback."""


_FIRST = frozenset({0})


def _joined(children: list[Any], places: frozenset[int]) -> list[Any]:
    """Put the children of children at some places in their stead."""
    return [
        child for n, value in enumerate(children) for child in (value if n in places else (value,))
    ]


class Parser:
    """Tables with the callbacks of their rules."""

    def __init__(self, tables: Tables, builder: object) -> None:
        self._tables = tables
        # Most rules that end pass their only child on, from one level of binding to the next.
        self._shapes: list[_Shape] = [
            (
                rule.size,
                rule.origin,
                rule.is_passed_on and rule.size == 1 and not rule.joined,
                rule.is_passed_on,
                frozenset(rule.joined),
                getattr(builder, rule.callback) if rule.callback else None,
            )
            for rule in tables.rules
        ]

    def parse(self, lex: Callable[[Accepted], Iterable[Token]], start: str, end: int = 0) -> Any:
        """Parse the tokens of a text.

        Parameters
        ----------
        lex
            Yields the tokens; its argument tells which terminals may come next.
        start
            The rule to start with.
        end
            Where the text ends.
        """
        tables = self._tables
        first, last = tables.starts[start]
        stack, values = [first], list[Any]()
        tokens = lex(lambda: tables.states[stack[-1]])
        self._feed(chain(tokens, (Token(END, "", end, end),)), stack, values, last)
        return values[-1]

    def follow(self, lex: Callable[[Accepted], Iterable[Token]], start: str) -> Following:
        """Read the tokens of an unfinished text, and find the terminals that may come next.

        Raises
        ------
        UnexpectedTokenError
            If a token cannot stand where it does.
        """
        stack, tokens = [self._tables.starts[start][0]], list[Token]()
        for token in lex(lambda: self._tables.states[stack[-1]]):
            shifted = self._shifted(stack, token.type)
            if shifted is None:
                raise UnexpectedTokenError(token, self._accepted(stack))
            stack[:] = shifted
            tokens.append(token)
        return Following(tokens, self._accepted(stack))

    def _feed(
        self, tokens: Iterable[Token], stack: list[int], values: list[Any], last: int
    ) -> None:
        """Shift every token, after all rules that it ends, until the last state is reached."""
        states, shapes = self._tables.states, self._shapes
        for token in tokens:
            terminal = token.type
            while stack[-1] != last:
                action = states[stack[-1]].get(terminal)
                if action is None:
                    raise UnexpectedTokenError(token, self._accepted(stack))
                if action >= 0:
                    stack.append(action)
                    values.append(token)
                    break
                size, origin, passes_on, is_passed_on, joined, callback = shapes[-action - 1]
                if passes_on:
                    stack[-1] = states[stack[-2]][origin]
                    continue
                begin = len(values) - size
                children = values[begin:]
                del values[begin:], stack[len(stack) - size :]
                if joined == _FIRST:
                    # A list that grows, which nobody else has: to copy it takes n² steps.
                    longer: list[Any] = children[0]
                    longer += children[1:]
                    children = longer
                elif joined:
                    children = _joined(children, joined)
                if is_passed_on and len(children) == 1:
                    values += children
                else:
                    values.append(children if callback is None else callback(children))
                stack.append(states[stack[-1]][origin])

    def _accepted(self, stack: list[int]) -> set[str]:
        """Find the terminals that can follow: some end a rule, and then nothing fits."""
        return {
            terminal
            for terminal in self._tables.states[stack[-1]]
            if terminal.isupper() and self._leads_on(stack, terminal)
        }

    def _leads_on(self, stack: list[int], terminal: str) -> bool:
        return self._shifted(stack, terminal) is not None

    def _shifted(self, stack: list[int], terminal: str) -> list[int] | None:
        """Compute the stack after a terminal, without values; None if it cannot follow."""
        states, rules, ahead = self._tables.states, self._tables.rules, list(stack)
        ends = {last for _, last in self._tables.starts.values()} if terminal == END else set()
        while ahead[-1] not in ends:
            action = states[ahead[-1]].get(terminal)
            if action is None:
                return None
            if action >= 0:
                return [*ahead, action]
            rule = rules[-action - 1]
            del ahead[len(ahead) - rule.size :]
            ahead.append(states[ahead[-1]][rule.origin])
        return ahead
