"""Vectors of text in, truth values out: regular expressions, and networks of addresses.

Neither is a function of Spark SQL, so both run in Python there too, and mean the same everywhere.
A regular expression is one of RE2, whose time grows with the length of a text and no faster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cepheid.errors import DataError, Diagnostic
from cepheid.events.schema import ValueKind
from cepheid.expressions.number_functions import piecewise
from cepheid.expressions.vectors import Vector, both_valid, map_texts, plain_texts, truth_of

if TYPE_CHECKING:
    from cepheid.expressions.vectors import Mask, Texts

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Matcher = Callable[["Texts"], "Mask"]


def _by_pattern(matcher: Callable[[str], Matcher]) -> Callable[[Vector, Vector], Vector]:
    """Return a function of texts and patterns, which looks at every pattern once."""

    def function(text: Vector, pattern: Vector) -> Vector:
        encoded = plain_texts(pattern.texts).dictionary_encode()
        matchers = [matcher(str(one)) for one in encoded.dictionary.to_pylist()]
        codes = Vector(encoded.indices.to_numpy(), pattern.valid, ValueKind.INTEGER)
        data = piecewise(text.texts, [codes], lambda texts, code: map_texts(texts, matchers[code]))
        return Vector(data, both_valid(text.valid, pattern.valid), ValueKind.BOOLEAN)

    return function


def regex_matcher(pattern: str) -> Matcher:
    """Make the function that finds a regular expression anywhere in texts.

    Raises
    ------
    DataError
        E577 if it is none of RE2.
    """

    def match(texts: Texts) -> Mask:
        return truth_of(pc.match_substring_regex(texts, pattern=pattern))

    try:
        match(pa.array([""], pa.string()))
    except pa.ArrowInvalid as error:
        told = str(error).partition(": ")[2] or str(error)
        message = f"`{pattern}` is no regular expression of RE2: {told}"
        helps = ("RE2 has no references to groups and does not look around",)
        raise DataError([Diagnostic("E577", message, helps=helps)]) from None
    return match


@cache
def read_network(text: str) -> Network:
    """Read a network such as ``10.0.0.0/8``; an address is a network of one.

    Raises
    ------
    DataError
        E578 if it is none.
    """
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        message = f"`{text}` is no network of addresses"
        helps = ("write '10.0.0.0/8' or 'fe80::/10'",)
        raise DataError([Diagnostic("E578", message, helps=helps)]) from None


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def network_matcher(pattern: str) -> Matcher:
    """Make the function that tells which texts are addresses of a network."""
    network = read_network(pattern)

    def match(texts: Texts) -> Mask:
        encoded = texts.dictionary_encode()
        found = (_address(str(text)) for text in encoded.dictionary.to_pylist())
        inside = [one is not None and one in network for one in found]
        spread: Mask = np.array(inside, np.bool_)[encoded.indices.to_numpy()]
        return spread

    return match


MATCH_FUNCTIONS: dict[str, Callable[[Vector, Vector], Vector]] = {
    "REGEX_MATCH": _by_pattern(regex_matcher),
    "IN_NETWORK": _by_pattern(network_matcher),
}
"""Functions of two texts, NULL if one of them is."""
