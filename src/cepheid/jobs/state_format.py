"""Serialized states: framed, with a version and the queries that they belong to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from cepheid.decoding import from_msgpack
from cepheid.errors import DataError, Diagnostic
from cepheid.framing import FrameError, NoFrameError, OtherFrameError, frame, split_frame
from cepheid.jobs.kind import Kind, kind_of
from cepheid.jobs.misfits import misfit
from cepheid.plans.plan import Plan

COPY = "start with a new checkpoint, or with a copy of this one from before the damage"


class Format(NamedTuple):
    """A kind of state: its name on disk, its version, and its owner.

    The version goes up whenever old bytes can no longer be read.
    """

    name: str
    version: int
    owner: str


class Meant(msgspec.Struct):
    """The header of every state: the meaning of the queries that it belongs to.

    Earlier states have the texts of the queries instead.
    """

    texts: tuple[str, ...]


StateType = TypeVar("StateType")
Own = TypeVar("Own", bound=Meant)


def meaning_of(plan: Plan) -> str:
    """Serialize the parts of a query that shape its state; a state of other parts is refused."""
    return meaning_by(kind_of(plan), plan)


@lru_cache(maxsize=8192)
def meaning_by(kind: Kind, plan: Plan) -> str:
    """Serialize the same for a query of a kind."""
    return msgspec.json.encode(kind.meaning(plan)).decode()


def text_of(plan: Plan) -> tuple[str, ...]:
    """Collect what identified a query in earlier states: its text, and what it was bound to."""
    return plan.text, plan.time, str(plan.type), str(plan.tick_ns), *plan.tiebreak


def write_state(form: Format, state: Any) -> bytes:
    """Serialize a state."""
    return frame(form.name, form.version, msgspec.msgpack.encode(state))


def read_state(form: Format, data: bytes, kind: type[StateType]) -> StateType:
    """Deserialize a state.

    Raises
    ------
    DataError
        E524 if the bytes are another kind of state or version, E546 if they are damaged.
    """
    found, rest = read_head(form, data, kind)
    if len(rest):
        raise damaged(form, "there are extra bytes after its end")
    return found


def read_head(form: Format, data: bytes, kind: type[StateType]) -> tuple[StateType, memoryview]:
    """Deserialize a state that is followed by other bytes, and return these; raises as above."""
    try:
        body, rest = split_frame(data, form.name, form.version)
        return from_msgpack(body, kind), rest
    except OtherFrameError as error:
        if error.name == form.name:
            why = f"the state of {form.owner}: {error}"
            raise misfit(why) from error
        why = f"it holds a state of kind `{error.name}`, not a state of {form.owner}"
        raise misfit(why) from error
    except NoFrameError as error:
        why = f"it holds no state of {form.owner}, or one of an earlier version: {error}"
        raise misfit(why) from error
    except FrameError as error:
        raise damaged(form, str(error)) from error
    except msgspec.MsgspecError as error:
        why = f"it holds no state of {form.owner}: {error}"
        raise misfit(why) from error


def damaged(form: Format, why: str) -> DataError:
    """Say that the bytes of a state are not those that were written (E546)."""
    message = f"the state of {form.owner} is damaged: {why}"
    return DataError([Diagnostic("E546", message, helps=(COPY,))])


def read_own(
    form: Format,
    data: bytes,
    kind: type[Own],
    meaning: tuple[str, ...],
    *earlier: tuple[str, ...],
) -> Own:
    """Deserialize a state and check that its queries mean the same; raises as ``read_state``.

    ``earlier`` is what earlier versions wrote instead of the meaning.
    """
    found = read_state(form, data, kind)
    check_own(form, found, meaning, *earlier)
    return found


def check_own(form: Format, found: Meant, *meanings: tuple[str, ...]) -> None:
    """Refuse the state of a query that means none of these (E524)."""
    if found.texts not in meanings:
        why = f"the state belongs to another {form.owner.partition(' ')[2]}"
        raise misfit(why)
