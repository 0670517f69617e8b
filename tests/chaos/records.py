"""Draw the records of a chaotic stream: bad, late, out of order, with a clock that jumps.

    position   0 ............ half | half ............ end | sentinels
    time       from 00:00          | from 06:00            | hours later

Nine of ten records come in the order of time. One of ten is overtaken by others, but comes before
the watermark passes it; one of a hundred comes too late; one of a hundred is bad. In the middle the
clock jumps by hours, which is no error.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import Any, NamedTuple

COLUMNS = "id long, ts timestamp, type string, user string, x double"
WATERMARK = "30 seconds"
BATCH = 100
"""Records of a micro-batch, at most."""

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
END = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
"""Sentinels come from here on."""

_STEP = dt.timedelta(milliseconds=250)
_JUMP = dt.timedelta(hours=6)
_TOO_LATE = dt.timedelta(seconds=200)
"""Behind by more than the watermark and three micro-batches."""
_OVERTAKEN = 80
"""A record may come behind so many others: 20 seconds, less than the watermark."""
_FUTURE = "2200-01-01T00:00:00Z"
_USERS = [f"u{number}" for number in range(5)]


class Record(NamedTuple):
    """A record as it is sent, and what should become of it."""

    number: int
    text: str
    fate: str
    event: dict[str, Any]


GOOD, LATE, BAD, NO_KEY = "good", "late", "bad", "no key"
"""What becomes of a record; without a key it is bad only for queries with keys."""


def draw_records(seed: int, count: int) -> list[Record]:
    """Draw records in the order in which they are sent, with sentinels at the end."""
    chance = random.Random(seed)
    half, found = count // 2, list[Record]()
    for stretch in range(2):
        begin = BEGIN + stretch * _JUMP
        drawn = [_draw(chance, stretch * half + place, place, begin) for place in range(half)]
        places = [
            place + (chance.randrange(1, _OVERTAKEN) if chance.random() < 0.1 else 0)
            for place in range(half)
        ]
        found += [drawn[place] for place in sorted(range(half), key=lambda one: places[one])]
    return [*found, *_sentinels(2 * half)]


def _draw(chance: random.Random, number: int, place: int, begin: dt.datetime) -> Record:
    event: dict[str, Any] = {
        "id": number,
        "ts": begin + place * _STEP,
        "type": chance.choice("AABBC"),
        "user": chance.choice(_USERS),
        "x": float(chance.randrange(10)),
    }
    drawn = chance.random()
    if drawn < 0.01:
        return _bad(chance, event)
    if drawn < 0.02 and place >= 3 * BATCH:
        late = event | {"ts": event["ts"] - _TOO_LATE}
        return Record(number, _json(late), LATE, late)
    return Record(number, _json(event), GOOD, event)


def _bad(chance: random.Random, event: dict[str, Any]) -> Record:
    text, number = _json(event), event["id"]
    broken = [
        text[: text.index('"type"')],
        text.replace(_stamp(event["ts"]), _FUTURE),
        text.replace(f'"{_stamp(event["ts"])}"', "null"),
        text.replace(_stamp(event["ts"]), "yesterday"),
        text.replace(str(event["x"]), '"many"'),
        f"{text} {text}",
    ]
    if chance.random() < 0.2:
        keyless = event | {"user": None, "type": "A"}
        return Record(number, _json(keyless), NO_KEY, keyless)
    return Record(number, chance.choice(broken), BAD, event)


def _sentinels(number: int) -> list[Record]:
    """Draw an event of every user, four times, each an hour later: all windows close.

    Their number is even, so that two partitions of a topic have as many and no micro-batch reads
    one of them beyond the jump of the clock and the other not.
    """
    found: list[Record] = []
    for hour in range(4):
        for place, user in enumerate(_USERS):
            time = END + dt.timedelta(hours=hour, seconds=place)
            own = number + len(found)
            event = {"id": own, "ts": time, "type": "Z", "user": user, "x": 0.0}
            found.append(Record(own, _json(event), GOOD, event))
    return found


def _stamp(time: dt.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _json(event: dict[str, Any]) -> str:
    return json.dumps(event | {"ts": _stamp(event["ts"])})
