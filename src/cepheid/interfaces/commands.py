"""Call the function that a command line names, with the arguments that its words stand for.

Typer reads every command line, writes ``--help`` and completes words in a shell, and takes longer
to load than a small query takes. So words that are plain and right are read here, by the signature
of the function, and Typer gets all others: help, mistakes, and forms that are rare.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

Function = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter that is given by its place."""

    help: str


@dataclass(frozen=True, slots=True, init=False)
class Option:
    """A parameter that is given by its name; without names it is called as in the signature."""

    names: tuple[str, ...]
    help: str
    min: float | None
    callback: Callable[[bool], None] | None
    """Called before anything else runs; only Typer calls it."""

    def __init__(
        self,
        *names: str,
        help: str,  # noqa: A002  # the name that Typer has
        min: float | None = None,  # noqa: A002
        callback: Callable[[bool], None] | None = None,
    ) -> None:
        values = {"names": names, "help": help, "min": min, "callback": callback}
        for name, value in values.items():
            object.__setattr__(self, name, value)


class _Parameter(NamedTuple):
    """A parameter of a command: how it is given, its type, and whether it must be given."""

    name: str
    given: Argument | Option
    kind: Any
    is_list: bool
    is_required: bool

    @property
    def options(self) -> tuple[str, ...]:
        """The words that announce its value."""
        if isinstance(self.given, Argument):
            return ()
        return self.given.names or (f"--{self.name.replace('_', '-')}",)

    @property
    def is_flag(self) -> bool:
        """Whether its name alone is its value; without a name of its own it has a negation too."""
        return self.kind is bool and isinstance(self.given, Option) and bool(self.given.names)

    def takes_place(self, found: dict[str, Any]) -> bool:
        """Check whether it takes the next word that is no option."""
        return isinstance(self.given, Argument) and (self.is_list or self.name not in found)


class Commands:
    """Commands by their names, and groups of commands."""

    def __init__(self, **texts: Any) -> None:
        self._texts = texts
        self._functions: dict[str, Function] = {}
        self._groups: dict[str, Commands] = {}
        self._shown: Function | None = None

    def command(self, name: str | None = None) -> Callable[[Function], Function]:
        """Add a function as a command."""

        def add(function: Function) -> Function:
            self._functions[name or function.__name__] = function
            return function

        return add

    def add_group(self, group: Commands, name: str) -> None:
        """Add commands that follow another word."""
        self._groups[name] = group

    def before_all(self, function: Function) -> Function:
        """Add the function that takes what stands before the command; Typer calls it."""
        self._shown = function
        return function

    def find(self, words: list[str]) -> Callable[[], None] | None:
        """Find the call that plain words stand for; None if Typer must read them."""
        if not words:
            return None
        if words[0] in self._groups:
            return self._groups[words[0]].find(words[1:])
        function = self._functions.get(words[0])
        arguments = None if function is None else _read(list(_parameters(function)), words[1:])
        if function is None or arguments is None:
            return None
        return functools.partial(function, **arguments)

    def typer(self) -> Any:
        """Build the commands for Typer."""
        # Takes longer to load than a small query takes.
        import typer

        made = typer.Typer(
            **self._texts,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )
        for name, group in self._groups.items():
            made.add_typer(group.typer(), name=name)
        for name, function in self._functions.items():
            made.command(name=name)(_for_typer(function))
        if self._shown is not None:
            made.callback()(_for_typer(self._shown))
        return made


def _parameters(function: Function) -> Iterator[_Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, given = get_args(hints[name])
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
        is_list = get_origin(kind) is list
        kind = get_args(kind)[0] if is_list else kind
        required = parameter.default is inspect.Parameter.empty
        yield _Parameter(name, given, kind, is_list, required)


def _read(parameters: list[_Parameter], words: list[str]) -> dict[str, Any] | None:
    """Read the words of a command; None if they are not plain, or if one is missing."""
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word.startswith("-") and word != "-":
            name, equal, value = word.partition("=") if word[1] == "-" else (word, "", "")
            one = next((one for one in parameters if name in one.options), None)
            if one is not None and one.is_flag and not equal:
                found[one.name] = True
                continue
            value = value if equal else next(rest, "--")
        else:
            value = word
            one = next((one for one in parameters if one.takes_place(found)), None)
        if one is None or one.kind not in (str, Path) or value.startswith("--"):
            return None
        converted = one.kind(value)
        found[one.name] = [*found.get(one.name, []), converted] if one.is_list else converted
    is_whole = all(one.name in found for one in parameters if one.is_required)
    return found if is_whole else None


def _for_typer(function: Function) -> Function:
    """Describe the parameters of a function as Typer does."""
    import typer

    @functools.wraps(function)
    def call(**arguments: Any) -> None:
        function(**arguments)

    described: list[inspect.Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, given = get_args(hints[name])
        shown: Any
        if isinstance(given, Argument):
            shown = typer.Argument(help=given.help)
        else:
            names, call_first = given.names, given.callback
            shown = typer.Option(
                *names, help=given.help, min=given.min, callback=call_first,
                is_eager=call_first is not None,
            )  # fmt: skip
        described.append(parameter.replace(annotation=Annotated[kind, shown]))
    call.__annotations__ = {one.name: one.annotation for one in described} | {"return": None}
    call.__signature__ = inspect.Signature(described)  # type: ignore[attr-defined]  # see inspect
    return call
