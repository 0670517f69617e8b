"""REGEX_MATCH and IN_NETWORK: by definition, in process and on Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import cepheid
from cepheid.errors import DataError
from cepheid.testing.oracle_expressions import in_network

TEXTS = [None, "", "a", "A", "b\na", "ab", "x\r", "aé", "𝄞b", "10", "K", "abcabc"]
PATTERNS = ["", "a", "^a$", "(?i)^a", "(?m)^a$", "b.a", "(?s)b.a", "[^a-z]", "a|b", "(?:bc?){1,2}"]
BY_HAND = {
    "": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    "a": [2, 4, 5, 7, 11],
    "^a$": [2],
    "(?i)^a": [2, 3, 5, 7, 11],
    "(?m)^a$": [2, 4],
    "b.a": [11],
    "(?s)b.a": [4, 11],
    "[^a-z]": [3, 4, 6, 7, 8, 9, 10],
    "a|b": [2, 4, 5, 7, 8, 11],
    "(?:bc?){1,2}": [4, 5, 8, 11],
}
ADDRESSES = [None, "10.0.0.1", "10.255.0.9", "11.0.0.1", "fe80::1", "FE80:0::1", "::1", "010.0.0.1"]
ADDRESSES += ["0:0:0:0:0:0:0:1", "10.0.0", "-", "10.0.0.1 ", "febf::", "fec0::", "192.168.16.5"]
NETWORKS = {
    "10.0.0.0/8": [1, 2],
    "fe80::/10": [4, 5, 12],
    "::1": [6, 8],
    "::1/128": [6, 8],
    "192.168.16.0/20": [14],
    "0.0.0.0/0": [1, 2, 3, 14],
}


def _found(events: object, condition: str) -> list[int]:
    rows = cepheid.query(f"SELECT ts FROM s WHERE {condition}").run(events)
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return sorted(table.column("ts").to_pylist())


def _table(texts: list[str | None], *, encoded: bool = False) -> pa.Table:
    column = pa.array(texts, pa.string())
    return pa.table(
        {"ts": range(len(texts)), "x": column.dictionary_encode() if encoded else column}
    )


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_regular_expression_is_found_anywhere(pattern: str) -> None:
    for encoded in (False, True):
        table = _table(TEXTS, encoded=encoded)
        assert _found(table, f"REGEX_MATCH(x, '{pattern}')") == BY_HAND[pattern]
    others = sorted({*range(1, len(TEXTS))} - {*BY_HAND[pattern]})
    assert _found(_table(TEXTS), f"NOT REGEX_MATCH(x, '{pattern}')") == others


@pytest.mark.parametrize("network", NETWORKS)
def test_addresses_of_a_network(network: str) -> None:
    for encoded in (False, True):
        table = _table(ADDRESSES, encoded=encoded)
        assert _found(table, f"IN_NETWORK(x, '{network}')") == NETWORKS[network]
    right = [n for n, one in enumerate(ADDRESSES) if one is not None and in_network(one, network)]
    assert right == NETWORKS[network]


@given(st.ip_addresses().map(str), st.ip_addresses().map(str), st.integers(0, 32))
def test_networks_are_leading_bits(address: str, base: str, length: int) -> None:
    table = _table([address, base])
    found = _found(table, f"IN_NETWORK(x, '{base}/{length}')")
    assert found == [
        n for n, one in enumerate((address, base)) if in_network(one, f"{base}/{length}")
    ]


def test_patterns_may_differ_from_event_to_event() -> None:
    table = pa.table({"ts": range(4), "x": ["ab", "ab", None, "c"], "p": ["^a", "^b", "c", None]})
    assert _found(table, "REGEX_MATCH(x, p)") == [0]
    nothing = pa.table({"ts": [1], "x": pa.nulls(1)})
    assert _found(nothing, "REGEX_MATCH(x, 'a') OR IN_NETWORK(x, '::1')") == []


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("REGEX_MATCH(x, '(')", "E577"),
        ("REGEX_MATCH(x, '(?!a)')", "E577"),
        ("IN_NETWORK(x, '10.0.0.0/33')", "E578"),
    ],
)
def test_what_is_no_pattern_is_told(condition: str, code: str) -> None:
    with pytest.raises(DataError) as caught:
        _found(_table(["a"]), condition)
    assert caught.value.diagnostics[0].code == code


@pytest.mark.spark
def test_both_on_spark(spark: SparkSession) -> None:
    # Spark gives rows in no order, so that both sides are sorted by time.
    events = spark.createDataFrame(_table(TEXTS))
    for pattern, rows in BY_HAND.items():
        assert _found(events, f"REGEX_MATCH(x, '{pattern}')") == rows
    events = spark.createDataFrame(_table(ADDRESSES))
    for network, rows in NETWORKS.items():
        assert _found(events, f"IN_NETWORK(x, '{network}')") == rows
