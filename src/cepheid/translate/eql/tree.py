"""The tree of an EQL query, as the public documentation of Elastic describes the language."""

from __future__ import annotations

from dataclasses import dataclass

from cepheid.translate.translated import CannotTranslateError

COUNT_OF_HEAD = 50
"""The number of rows that ``head`` keeps if it has none."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, a truth value or null."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its dotted name, the numbers of array elements in it, and whether it may lack."""

    name: str
    places: tuple[int, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Negative:
    """A number with the other sign."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Logic:
    """Conditions joined by ``and`` or by ``or``."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """A comparison, or arithmetic; ``:`` is a comparison, too."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class OneOf:
    """``in``, ``:``, ``like`` and ``regex`` with a list, each also without regard to case."""

    operator: str
    operand: Expression
    items: tuple[Expression, ...]
    any_case: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function."""

    name: str
    arguments: tuple[Expression, ...]
    any_case: bool = False


@dataclass(frozen=True, slots=True)
class Related:
    """``descendant of``, ``child of`` and ``event of`` the process of another event."""

    relation: str
    events: Events


Expression = Literal | Field | Not | Negative | Logic | Binary | OneOf | Call | Related


@dataclass(frozen=True, slots=True)
class Events:
    """Events of a category, ``""`` for any, that meet a condition."""

    category: str
    condition: Expression


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a sequence: its keys, how often it comes, whether it must be missing."""

    events: Events
    keys: tuple[Expression, ...] = ()
    runs: int = 1
    missing: bool = False
    fork: bool = False


@dataclass(frozen=True, slots=True)
class Several:
    """``sequence``, ``join`` or ``sample``: several events with equal keys."""

    kind: str
    keys: tuple[Expression, ...]
    stages: tuple[Stage, ...]
    until: Stage | None = None
    maxspan_us: int | None = None


@dataclass(frozen=True, slots=True)
class Pipe:
    """A step that takes the results of what stands before it."""

    name: str
    arguments: tuple[Expression, ...]

    def count(self) -> int:
        """Return the number of results that ``head`` keeps.

        Raises
        ------
        CannotTranslateError
            If it is no whole number.
        """
        given = self.arguments[0] if self.arguments else Literal(COUNT_OF_HEAD)
        value = given.value if isinstance(given, Literal) else None
        if len(self.arguments) > 1 or not isinstance(value, int):
            message = f"the pipe `{self.name}` takes a whole number"
            raise CannotTranslateError(message)
        return value


@dataclass(frozen=True, slots=True)
class EqlQuery:
    """A whole query."""

    source: Events | Several
    pipes: tuple[Pipe, ...] = ()
