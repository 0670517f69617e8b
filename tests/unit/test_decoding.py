"""Decoding from several threads: none sees the half-built description of a class."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from cepheid.decoding import from_json, from_msgpack, from_values

# A process of its own, as a class is described only once.
MANY_THREADS = """
import sys, threading
import cepheid
from cepheid.plans.plan import Plan

sys.setswitchinterval(1e-6)
query = "RETURN k, COUNT(*) PATTERN SEQ(A+, B) WHERE [k] GROUP-BY k WITHIN 4 s SLIDE 2 s"
data = cepheid.query(query).plan.to_json()
start, found = threading.Barrier(8), []

def decode():
    start.wait()
    found.append(Plan.from_json(data))

threads = [threading.Thread(target=decode) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), len({plan.to_json() for plan in found}))
"""


class Shop(msgspec.Struct):
    name: str
    orders: list[int]


@pytest.mark.parametrize("attempt", range(3))
def test_threads_decode_a_plan_for_the_first_time(attempt: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MANY_THREADS], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "8 1\n"), ran.stderr


def test_every_form_gives_the_same_value() -> None:
    shop = Shop("north", [1, 2])
    assert from_json(msgspec.json.encode(shop), Shop) == shop
    assert from_msgpack(msgspec.msgpack.encode(shop), Shop) == shop
    assert from_values({"name": "north", "orders": [1, 2]}, Shop) == shop
    assert from_json(b"3", int | str) == 3


def test_a_wrong_value_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        from_values({"name": "north", "orders": "none"}, Shop)
