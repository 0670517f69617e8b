"""Parse by LALR tables: tokens and tables in, what the callbacks of the rules return out.

Lark makes the tables from the grammar (``build_tables.py``). Lark can run them too, but takes
longer to load than a small query takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


Callbacks = list[Callable[[list[Any]], Any] | None]
Accepted = Callable[[], Mapping[str, int]]


class Parser:
    """Tables with the callbacks of their rules."""

    def __init__(self, tables: Tables, builder: object) -> None:
        self._tables = tables
        self._callbacks: Callbacks = [
            getattr(builder, rule.callback) if rule.callback else None for rule in tables.rules
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
        for token in lex(lambda: tables.states[stack[-1]]):
            self._feed(token, stack, values, -1)
        self._feed(Token(END, "", end, end), stack, values, last)
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

    def _feed(self, token: Token, stack: list[int], values: list[Any], last: int) -> None:
        """End all rules that the token ends, and shift it."""
        states, rules = self._tables.states, self._tables.rules
        while stack[-1] != last:
            action = states[stack[-1]].get(token.type)
            if action is None:
                raise UnexpectedTokenError(token, self._accepted(stack))
            if action >= 0:
                stack.append(action)
                values.append(token)
                return
            place = -action - 1
            rule = rules[place]
            children = values[len(values) - rule.size :]
            del values[len(values) - rule.size :], stack[len(stack) - rule.size :]
            values.append(self._value(place, rule, children))
            stack.append(states[stack[-1]][rule.origin])

    def _value(self, place: int, rule: Rule, children: list[Any]) -> Any:
        if rule.joined:
            children = [
                child
                for n, value in enumerate(children)
                for child in (value if n in rule.joined else (value,))
            ]
        if rule.is_passed_on and len(children) == 1:
            return children[0]
        callback = self._callbacks[place]
        return children if callback is None else callback(children)

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
