"""Serialized states: framed, with a version and the queries that they belong to."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.framing import FrameError, NoFrameError, OtherFrameError, frame, unframe
from cepheid.plans.plan import Plan

NEW_CHECKPOINT = "start the changed query with a new checkpoint, or go back to the old one"
COPY = "start with a new checkpoint, or with a copy of this one from before the damage"


class Format(NamedTuple):
    """A kind of state: its name on disk, its version, and its owner.

    The version goes up whenever old bytes can no longer be read.
    """

    name: str
    version: int
    owner: str


class Meant(msgspec.Struct):
    """The header of every state: the meaning of the queries that it belongs to."""

    texts: tuple[str, ...]


Kind = TypeVar("Kind")
Own = TypeVar("Own", bound=Meant)


def meaning_of(plan: Plan) -> tuple[str, ...]:
    """Collect the properties that identify a query; a state of other properties is refused."""
    return plan.text, plan.time, str(plan.type), str(plan.tick_ns), *plan.tiebreak


def write_state(form: Format, state: Any) -> bytes:
    """Serialize a state."""
    return frame(form.name, form.version, msgspec.msgpack.encode(state))


def read_state(form: Format, data: bytes, kind: type[Kind]) -> Kind:
    """Deserialize a state.

    Raises
    ------
    DataError
        E524 if the bytes are another kind of state or version, E546 if they are damaged.
    """
    try:
        return msgspec.msgpack.decode(unframe(data, form.name, form.version), type=kind)
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
        message = f"the state of {form.owner} is damaged: {error}"
        raise DataError([Diagnostic("E546", message, helps=(COPY,))]) from error
    except msgspec.MsgspecError as error:
        why = f"it holds no state of {form.owner}: {error}"
        raise misfit(why) from error


def read_own(form: Format, data: bytes, kind: type[Own], texts: tuple[str, ...]) -> Own:
    """Deserialize a state and check that its queries mean the same; raises as ``read_state``."""
    found = read_state(form, data, kind)
    if found.texts != texts:
        why = f"the state belongs to another {form.owner.partition(' ')[2]}"
        raise misfit(why)
    return found


def misfit(why: str) -> DataError:
    """Build the error for a checkpoint that another query has written."""
    message = f"the checkpoint does not fit the query: {why}"
    return DataError([Diagnostic("E524", message, helps=(NEW_CHECKPOINT,))])
