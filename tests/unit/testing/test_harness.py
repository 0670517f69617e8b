from __future__ import annotations

import math

import pytest

from cepheid import testing
from cepheid.testing.harness import stream


def test_letters_are_types_and_numbers_are_seconds() -> None:
    assert stream("a1 b2 c2") == [
        {"ts": 1_000_000, "type": "A"},
        {"ts": 2_000_000, "type": "B"},
        {"ts": 2_000_000, "type": "C"},
    ]


def test_longer_types_keep_their_case() -> None:
    assert stream("Stock3(price=9)") == [{"ts": 3_000_000, "type": "Stock", "price": 9}]
    assert stream("buy_order1")[0]["type"] == "buy_order"


def test_untyped_events_have_no_type() -> None:
    assert stream("_3(price=1)") == [{"ts": 3_000_000, "price": 1}]


def test_times_are_exact_to_the_microsecond_and_may_be_negative() -> None:
    assert [event["ts"] for event in stream("a-2 a-0.5 a0.000001 a0.1")] == [
        -2_000_000,
        -500_000,
        1,
        100_000,
    ]


def test_values_of_every_type() -> None:
    (event,) = stream("a1(i=-5, d=1.5, e=1e3, t='it''s, (x)', y=true, n=False, nothing=NULL)")
    assert event == {
        "ts": 1_000_000,
        "type": "A",
        "i": -5,
        "d": 1.5,
        "e": 1000.0,
        "t": "it's, (x)",
        "y": True,
        "n": False,
        "nothing": None,
    }
    assert isinstance(event["e"], float)
    assert isinstance(event["i"], int)


def test_nan_infinity_and_minus_zero() -> None:
    (event,) = stream("a1(x=NaN, y=-0.0, z=infinity, w=-inf)")
    assert math.isnan(float(str(event["x"])))
    assert math.copysign(1, float(str(event["y"]))) == -1
    assert (event["z"], event["w"]) == (math.inf, -math.inf)


def test_blanks_and_lines_separate_events() -> None:
    assert len(stream("\n a1  b2\n\tc3 (x = 1 , y.z = 2)\n")) == 3
    assert stream("c3 (x = 1 , y.z = 2)")[0]["y.z"] == 2
    assert stream("") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1a", "expected an event such as a1"),
        ("a", "expected an event such as a1"),
        ("a1,b2", "expected a blank between two events: ',b2'"),
        ("a1(", "expected an attribute such as price=5: the text ends"),
        ("a1()", "expected an attribute such as price=5"),
        ("a1(x)", "expected an attribute such as price=5"),
        ("a1(x=)", "expected a number, 'text', true"),
        ("a1(x=buy)", "expected a number, 'text', true, false, null or NaN: 'buy)'"),
        ("a1(x='buy)", "expected a number, 'text'"),
        ("a1(x=1 y=2)", "expected `,` or `)` after an attribute: 'y=2)'"),
        ("a1(x=1", "expected `,` or `)` after an attribute: the text ends"),
        ("a1(x=1, x=2)", "`x` is given twice"),
        ("a1(ts=1)", "`ts` is given twice"),
        ("a2 b1", "an event is earlier than the one before it: 'b1'"),
        ("a0.0000001", "a time has at most six decimal places: 0.0000001"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        stream(text)
    assert message in str(raised.value)


def test_the_package_exports_its_tools() -> None:
    assert testing.stream is stream
    assert callable(testing.evaluate)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = testing.nothing
