"""A client of a schema registry: schemas by id and by subject, over HTTP.

A value in Confluent's wire format is a zero byte, the id of its schema in four bytes, and the data.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

from cepheid.runtimes.kafka.clients import fail

MAGIC = 0
HEADER_BYTES = 5
ANSWER_S = 10.0
ANSWER_BYTES_MAX = 4 << 20


def schema_id(value: bytes) -> int:
    """Read the id of the schema of a value in wire format.

    Raises
    ------
    ValueError
        If it has no such header.
    """
    if len(value) < HEADER_BYTES or value[0] != MAGIC:
        message = "the value has no header with the id of its schema"
        raise ValueError(message)
    return int.from_bytes(value[1:HEADER_BYTES], "big")


class Registry:
    """Schemas of a registry, each asked for once.

    Raises
    ------
    DataError
        E565 if the registry does not answer, or does not have the schema.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._known: dict[str, str] = {}

    def latest(self, topic: str, *, serialized: bool = False) -> str:
        """Return the newest schema of a topic's values; ``serialized`` is Protobuf in base64."""
        path = f"/subjects/{urllib.parse.quote(topic, safe='')}-value/versions/latest"
        return self._schema(path + ("?format=serialized" if serialized else ""))

    def by_id(self, number: int) -> str:
        """Return the schema with this id."""
        return self._schema(f"/schemas/ids/{number}")

    def _schema(self, path: str) -> str:
        if path not in self._known:
            answer = self._answer(path)
            if answer.get("references"):
                fail("E565", f"the schema at {self.url}{path} refers to others")
            self._known[path] = str(answer["schema"])
        return self._known[path]

    def _answer(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=ANSWER_S) as reply:
                found = json.loads(reply.read(ANSWER_BYTES_MAX))
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            help_ = "check the address, or name a file with the schema"
            message = f"the schema registry does not have {self.url}{path}: {reason}"
            fail("E565", message, help_)
        if not isinstance(found, dict) or "schema" not in found:
            fail("E565", f"{self.url}{path} is no schema")
        return found
