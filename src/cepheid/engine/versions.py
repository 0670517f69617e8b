"""States as bytes, with a version and the queries that they belong to."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from cepheid.planner.plan import Plan


class Versioned(msgspec.Struct):
    """What every state begins with."""

    version: int
    texts: tuple[str, ...]


Kind = TypeVar("Kind", bound=Versioned)


def meaning_of(plan: Plan) -> tuple[str, ...]:
    """Return what makes a query another one, so that it cannot go on with a state."""
    window = plan.window if plan.select is None else plan.select.window
    return plan.text, plan.time, str(plan.type), str(window.tick_ns), *plan.tiebreak


def read_versioned(
    data: bytes, kind: type[Kind], version: int, texts: tuple[str, ...], owner: str
) -> Kind:
    """Return a state from its bytes.

    Raises
    ------
    ValueError
        If the bytes are no state, of another version, or of other queries.
    """
    try:
        found = msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        message = f"this is no state of {owner}: {error}"
        raise ValueError(message) from error
    if found.version != version:
        message = f"the state has version {found.version}, this Cepheid reads {version}"
        raise ValueError(message)
    if found.texts != texts:
        message = f"the state belongs to another {owner.removeprefix('a ')}"
        raise ValueError(message)
    return found
