"""Logs of Windows (EVTX) in, tables of events out, with the fields of events side by side.

A rule of Sigma names the fields of ``EventData`` and of ``System`` as if they stood beside each
other. All but the numbers of events and records are texts.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from cepheid.errors import DataError, Diagnostic

NUMBERS = ("EventID", "EventRecordID")
TIME = "ts"
"""The column of the time, which the log has in ``TimeCreated``."""

Record = dict[str, Any]


def read_windows_log(file: Path) -> pa.Table:
    """Read a log as a table, in the order of its records.

    Raises
    ------
    DataError
        E560 without the package ``evtx``, E501 if the file is no log.
    """
    try:
        library: Any = importlib.import_module("evtx")
    except ModuleNotFoundError as error:
        helps = ("`pip install 'cepheid[evtx]'`",)
        message = "the package `evtx` is not installed"
        raise DataError([Diagnostic("E560", message, helps=helps)]) from error
    columns: dict[str, list[Any]] = {}
    count = 0
    try:
        for record in library.PyEvtxParser(str(file)).records_json():
            for name, value in flat_event(msgspec.json.decode(record["data"])).items():
                column = columns.setdefault(name, [])
                column += [None] * (count - len(column))
                column.append(value)
            count += 1
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        message = f"could not read `{file}`: {error}"
        raise DataError([Diagnostic("E501", message)]) from error
    for column in columns.values():
        column += [None] * (count - len(column))
    return _table(columns, count)


def _table(columns: dict[str, list[Any]], count: int) -> pa.Table:
    texts = sorted({*columns} - {*NUMBERS, TIME})
    fields: dict[str, Any] = {TIME: _times(columns.get(TIME, []))}
    fields |= {n: pa.array(columns.get(n, [None] * count), pa.int64()) for n in NUMBERS}
    return pa.table(fields | {name: pa.array(columns[name], pa.string()) for name in texts})


def _times(texts: list[str]) -> pa.Array[Any]:
    """Read times; logs count tenths of a microsecond."""
    cut = [text[:26].rstrip("Z") for text in texts]
    return pa.array(cut, pa.string()).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def flat_event(record: Record) -> Record:
    """Return the fields of an event of Windows side by side; all but a few are texts.

    Examples
    --------
    >>> time = {"#attributes": {"SystemTime": "2026-01-31T10:00:00.000000Z"}}
    >>> named = {"#attributes": {"Name": "Auditing"}}
    >>> system = {"EventID": 4625, "Provider": named, "TimeCreated": time}
    >>> flat_event({"Event": {"System": system, "EventData": {"LogonType": 3}}})["LogonType"]
    '3'
    """
    event = record["Event"]
    system = event["System"]
    fields = {**_data(event), **_user_data(event)}
    found: Record = {
        name: _text(value) for name, value in fields.items() if not name.startswith("#")
    }
    found |= {name: system[name] for name in NUMBERS if isinstance(system.get(name), int)}
    number = system["EventID"]
    found["EventID"] = number if isinstance(number, int) else int(number["#text"])
    found["Channel"], found["Computer"] = system.get("Channel"), system.get("Computer")
    found["Provider_Name"] = system["Provider"]["#attributes"].get("Name")
    found["Level"] = _text(system.get("Level"))
    found[TIME] = system["TimeCreated"]["#attributes"]["SystemTime"]
    return found


def _data(event: Record) -> Record:
    found = event.get("EventData")
    return found if isinstance(found, dict) else {}


def _user_data(event: Record) -> Record:
    inner = event.get("UserData")
    listed = [one for one in inner.values() if isinstance(one, dict)] if inner else []
    return {name: value for one in listed for name, value in one.items()}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) and "#text" in value:
        return _text(value["#text"])
    if isinstance(value, list):
        return "\n".join(str(_text(one)) for one in value)
    return json.dumps(value) if isinstance(value, dict) else str(value)
