"""The rules of single links, and the loops that end early (§3.6, §3.7), as data."""

from __future__ import annotations

import msgspec

from cepheid.errors import Span
from cepheid.language import tree


class LinkRule(msgspec.Struct, frozen=True):
    """The rule of the links from one variable to another."""

    prev: str
    next: str
    semantics: tree.Semantics


class EndedLoop(msgspec.Struct, frozen=True):
    """The variables of a loop with UNTIL, and the variable that stands for what ends it.

    ``stop`` fits the events that meet the condition; no match binds it.
    """

    variables: tuple[str, ...]
    stop: str
    text: str
    span: Span


class Links(msgspec.Struct, frozen=True):
    """The rules by which links close, where one rule for all does not say it."""

    default: tree.Semantics
    rules: tuple[LinkRule, ...] = ()
    loops: tuple[EndedLoop, ...] = ()

    def rule(self, prev: str, later: str) -> tree.Semantics:
        """Look up the rule of a link."""
        for rule in self.rules:
            if (rule.prev, rule.next) == (prev, later):
                return rule.semantics
        return self.default

    def stops(self, variable: str) -> frozenset[str]:
        """Collect what ends the loops that a variable is in."""
        return frozenset(loop.stop for loop in self.loops if variable in loop.variables)

    @property
    def has_contiguous(self) -> bool:
        """Check whether events that fit no variable close a link."""
        rules = {self.default, *(rule.semantics for rule in self.rules)}
        return tree.Semantics.CONTIGUOUS in rules
