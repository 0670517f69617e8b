"""Clients of Kafka: the library, its settings, and its errors as diagnostics."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Never

from cepheid.errors import DataError, Diagnostic

ANSWER_S = 30.0
"""The longest time a broker may take to answer."""


def extra(module: str, package: str, name: str) -> Any:
    """Import a library of an optional extra.

    Raises
    ------
    DataError
        E560 if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        message = f"the package `{package}` is not installed"
        helps = (f"`pip install 'cepheid[{name}]'`, on the workers too",)
        raise DataError([Diagnostic("E560", message, helps=helps)]) from error


def library() -> Any:
    """Import confluent-kafka."""
    return extra("confluent_kafka", "confluent-kafka", "kafka")


def fail(code: str, message: str, *helps: str) -> Never:
    """Raise an error of one diagnostic.

    Raises
    ------
    DataError
        With the code.
    """
    raise DataError([Diagnostic(code, message, helps=helps)])


@contextlib.contextmanager
def clear_kafka(doing: str) -> Iterator[None]:
    """Convert exceptions of the library in the body to one diagnostic.

    Raises
    ------
    DataError
        E562.
    """
    kafka = library()
    try:
        yield
    except kafka.KafkaException as error:
        reason = error.args[0] if error.args else error
        text = reason.str() if hasattr(reason, "str") else str(reason)
        fail("E562", f"could not {doing}: {text}", *_helps(text))


def _helps(text: str) -> tuple[str, ...]:
    if "ransport" in text or "timed out" in text.lower():
        return ("check that the broker runs, and that its listeners can be reached from here",)
    return ()


def consumer_of(servers: str, more: Mapping[str, str]) -> Any:
    """Create a consumer that is assigned its partitions, and reads what is committed."""
    return library().Consumer(
        {
            # A group is only a name here: offsets are in the checkpoint, and none is committed.
            "group.id": "cepheid",
            "fetch.wait.max.ms": 50,
            "queued.min.messages": 200_000,
            **more,
            "bootstrap.servers": servers,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )


def admin_of(servers: str, more: Mapping[str, str]) -> Any:
    """Create a client that asks for topics and offsets."""
    return extra("confluent_kafka.admin", "confluent-kafka", "kafka").AdminClient(
        {**more, "bootstrap.servers": servers, "log_level": 0}
    )
