"""``event of``, ``child of`` and ``descendant of`` in, a pattern of the events of processes out.

The relation is a chain of events: one of the process that is asked for, the creations of the
processes from there to that of the event, and the event, which may be the last creation itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cepheid.expressions.format import format_literal, format_name
from cepheid.translate.eql import tree
from cepheid.translate.eql.expressions import Writer
from cepheid.translate.translated import CannotTranslateError

PROCESS, PARENT, SUBTYPE = "unique_pid", "unique_ppid", "subtype"
CREATED = ("create", "fork")
CREATION = "process"
"""The category of the events that create processes."""

NOTES = (
    "processes are told apart by `unique_pid`, which is used once, and created by events of "
    "`process` with `subtype` create or fork and `unique_ppid`, before their parents end",
    "a match also has the events by which the process of its last event is known",
)
CHAINS_MAX = 30
"""Alternatives of a pattern."""


class _Link(NamedTuple):
    """An event of a chain: what it is, whether it creates a process, and how often it comes."""

    events: tuple[tree.Events, ...]
    creates: bool = False
    times: str = ""

    @property
    def categories(self) -> set[str]:
        """The categories that it is of; of two, it is none."""
        found = {one.category for one in self.events if one.category}
        return found | ({CREATION} if self.creates else set())


_Chain = tuple[_Link, ...]


def has_relation(events: tree.Events) -> bool:
    """Check whether a condition on events asks for the process of another event."""
    return any(isinstance(part, tree.Related) for part in _parts(events.condition))


def write_related(events: tree.Events, pipes: tuple[tree.Pipe, ...], writer: Writer) -> str:
    """Write the events whose process is related to that of others."""
    limit, tests = "", []
    for pipe in pipes:
        if limit or pipe.name not in ("filter", "head") or len(pipe.arguments) != 1:
            message = f"the pipe `{pipe.name}` after a relation of processes has no counterpart"
            raise CannotTranslateError(message)
        if pipe.name == "filter":
            tests.append(pipe.arguments[0])
        else:
            limit = f" LIMIT {pipe.count()}"
    filtered = tree.Events(events.category, _all([events.condition, *tests]))
    chains = list(_chains(filtered))
    if len(chains) > CHAINS_MAX:
        message = f"relations of processes with more than {CHAINS_MAX} chains have no counterpart"
        raise CannotTranslateError(message)
    writer.notes |= dict.fromkeys(NOTES)
    patterns, conditions = [], []
    for number, chain in enumerate(chains, 1):
        pattern, tested = _written(chain, f"p{number}_", writer)
        patterns.append(pattern)
        conditions += tested
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return (
        f"RETURN MATCHES PATTERN {' OR '.join(patterns)}{where} TIES arrival{limit} "
        "AFTER MATCH SKIP TO LATEST"
    )


def _chains(events: tree.Events) -> Iterator[_Chain]:
    """Yield the chains that end with an event of a kind."""
    parts = list(_parts(events.condition))
    related = [part for part in parts if isinstance(part, tree.Related)]
    plain = tree.Events(events.category, _all(p for p in parts if p not in related))
    end = _Link((plain,))
    if not related:
        yield (end,)
        return
    if len(related) > 1:
        message = "an event with two relations of processes has no counterpart"
        raise CannotTranslateError(message)
    created = _created(plain)
    for before in _chains(related[0].events):
        match related[0].relation:
            case "event":
                yield (*before, end)
                last = before[-1]
                # The event that is asked for is one of its own process, too.
                both = last._replace(events=(*last.events, plain))
                if len(both.categories) < 2:
                    yield (*before[:-1], both)
            case "child":
                yield (*before, _Link((), creates=True), end)
                if created is not None:
                    yield (*before, created)
            case _:
                yield (*before, _Link((), creates=True, times="+"), end)
                if created is not None:
                    yield (*before, _Link((), creates=True, times="*"), created)


def _created(events: tree.Events) -> _Link | None:
    """Return the creation of a process that is an event itself; None if no event is both."""
    if events.category not in ("", CREATION):
        return None
    return _Link((events,), creates=True)


def _written(chain: _Chain, prefix: str, writer: Writer) -> tuple[str, list[str]]:
    """Write a chain as a pattern, and the conditions on its events and between neighbours."""
    names = [f"{prefix}{number}" for number in range(1, len(chain) + 1)]
    parts, tests = [], []
    for name, link in zip(names, chain, strict=True):
        own = writer.of(name)
        kind = format_name("".join(link.categories)) if link.categories else "ANY"
        parts.append(f"{kind} {name}{link.times}")
        tests += [own.condition(one.condition) for one in link.events]
        if link.creates:
            subtype = own.value(tree.Field(SUBTYPE)).text
            tests.append(f"{subtype} IN ({', '.join(map(format_literal, CREATED))})")
    for place, link in enumerate(chain):
        if link.times:
            step = f"{_of(writer, names[place], PROCESS)} = NEXT({names[place]})."
            tests.append(step + writer.column(tree.Field(PARENT)))
    tests += list(_between(chain, names, writer))
    pattern = parts[0] if len(parts) == 1 else f"SEQ({', '.join(parts)})"
    return pattern, [test for test in tests if test != "TRUE"]


def _between(chain: _Chain, names: list[str], writer: Writer) -> Iterator[str]:
    """Yield the conditions between neighbours; a loop that may have no round is passed by."""
    for place, link in enumerate(chain[1:], 1):
        before = [place - 1]
        if chain[place - 1].times == "*":
            before.append(place - 2)
        field = PARENT if link.creates else PROCESS
        for one in before:
            yield f"{_of(writer, names[one], PROCESS)} = {_of(writer, names[place], field)}"


def _of(writer: Writer, name: str, field: str) -> str:
    return writer.of(name).value(tree.Field(field)).text


def _parts(condition: tree.Expression) -> Iterator[tree.Expression]:
    """Yield the parts of a conjunction."""
    if isinstance(condition, tree.Logic) and condition.operator == "and":
        for one in condition.operands:
            yield from _parts(one)
    else:
        yield condition


def _all(parts: Iterable[tree.Expression]) -> tree.Expression:
    found = tuple(parts)
    if not found:
        return tree.Literal(value=True)
    return found[0] if len(found) == 1 else tree.Logic("and", found)
