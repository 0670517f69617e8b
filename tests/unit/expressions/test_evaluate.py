from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepheid.errors import DataError, Span
from cepheid.expressions.evaluate import evaluate_vector, true_mask
from cepheid.expressions.format import format_expression
from cepheid.expressions.vectors import Vector, vector_of
from cepheid.language import tree
from cepheid.testing.oracle_expressions import Leaf, Value, evaluate_expression

HERE = Span(0, 0)
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
INT64_MAX = 2**63 - 1
TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "j": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "s": pa.string(),
    "r": pa.string(),
    "b": pa.bool_(),
    "c": pa.bool_(),
    "t": pa.timestamp("us", "UTC"),
    "u": pa.timestamp("us"),
    "p": pa.duration("us"),
    "nothing": pa.null(),
}
"""The columns by their names: whole numbers, doubles, text, truth values, times, durations."""

Columns = dict[str, list[Value]]

# ---------------------------------------------------------------------------------------
# Comparison with the oracle


def column_of(name: str, values: list[Value]) -> pa.Array[Any]:
    """Return a column of Arrow with something unpleasant under every NULL."""
    kind = TYPES[name]
    if kind in (pa.string(), pa.null()):
        return pa.array(values, kind)
    dtype: Any = {pa.bool_(): np.bool_, pa.float64(): np.float64}.get(kind, np.int64)
    hidden = {pa.bool_(): True, pa.float64(): math.nan}.get(kind, -INT64_MAX - 1)
    data = np.array([hidden if value is None else value for value in values], dtype)
    array: pa.Array[Any] = pa.array(data, mask=np.array([value is None for value in values], bool))
    return array if kind in (pa.bool_(), pa.float64()) else array.cast(kind)


def values_of(vector: Vector, length: int) -> list[Value]:
    data = vector.data.tolist()
    assert len(data) == length
    assert vector.valid is None or len(vector.valid) == length
    known = np.ones(length, np.bool_) if vector.valid is None else vector.valid
    return [value if ok else None for value, ok in zip(data, known, strict=True)]


def evaluate(
    expression: tree.Expression, columns: Columns, *, text: pa.DataType | None = None
) -> tuple[list[Value], list[bool]]:
    """Return the values of an expression and for which events it is true."""
    length = len(next(iter(columns.values())))
    vectors = {}
    for name, values in columns.items():
        array = column_of(name, values)
        if text is not None and pa.types.is_string(array.type):
            array = array.cast(text)
        vectors[name] = vector_of(array, name=name)

    def lookup(attribute: tree.Attribute) -> Vector:
        return vectors[attribute.attribute.text]

    vector = evaluate_vector(expression, lookup, length)
    values = values_of(vector, length)
    if vector.kind.value not in ("boolean", "unknown"):
        return values, []
    return values, true_mask(expression, lookup, length).tolist()


def oracle_values(expression: tree.Expression, columns: Columns) -> list[Value]:
    def value(event_idx: int) -> Value:
        def lookup(leaf: Leaf) -> Value:
            assert isinstance(leaf, tree.Attribute)
            return columns[leaf.attribute.text][event_idx]

        return evaluate_expression(expression, lookup)

    return [value(event_idx) for event_idx in range(len(next(iter(columns.values()))))]


def leaves_64_bits(expression: tree.Expression, columns: Columns) -> bool:
    """Return whether a part of an expression is a whole number that int64 does not hold."""
    parts = [node for node in tree.walk(expression) if isinstance(node, tree.Expression)]
    try:
        return any(
            type(value) is int and not -INT64_MAX - 1 <= value <= INT64_MAX
            for part in parts
            for value in oracle_values(part, columns)
        )
    except OverflowError:  # FLOOR or CEIL of NaN or an infinity.
        return True


def same(mine: Value, right: Value) -> bool:
    if isinstance(mine, float) and isinstance(right, float) and math.isnan(right):
        return math.isnan(mine)
    return type(mine) is type(right) and mine == right


def check(expression: tree.Expression, columns: Columns, text: pa.DataType | None = None) -> None:
    """Compare with the oracle, event by event."""
    shown = f"{format_expression(expression)} over {columns}"
    if not next(iter(columns.values())):
        # A constant that leaves 64 bits is refused even where there is no event.
        with suppress(DataError):
            assert evaluate(expression, columns, text=text)[0] == []
    elif leaves_64_bits(expression, columns):
        with pytest.raises(DataError, match="E504"):
            evaluate(expression, columns, text=text)
    else:
        wanted = oracle_values(expression, columns)
        values, mask = evaluate(expression, columns, text=text)
        assert all(map(same, values, wanted)), f"{shown}: {values} is not {wanted}"
        assert mask in ([], [value is True for value in wanted]), shown


# ---------------------------------------------------------------------------------------
# Random expressions

WHOLE = st.sampled_from([0, 1, -1, 2, 3, -7, 10, 125, 2**53, 2**53 + 1, -(2**53) - 1, 2**62])
WHOLE |= st.sampled_from([INT64_MAX, -INT64_MAX - 1, INT64_MAX - 511, 5 * 10**18])
SMALL = st.integers(-4, 4) | st.sampled_from([18, -18, 19, -19, -20, 2**31, 2**62, -(2**62)])
EDGES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -2.5, 1.005, 2.0**53, 2.0**63, -(2.0**63)]
DOUBLES = st.sampled_from([*EDGES, 0.49999999999999994, 1e300, 1e-300, 12345.675]) | st.floats()
CHARACTERS = st.sampled_from(
    ["a", "A", "b", "%", "_", "\\", "é", "ß", "Σ", "İ", " ", "\n", "𝄞", "."]
)
TEXT = st.sampled_from(["", "a", "ab", "a%", "A b", " a "]) | st.text(CHARACTERS, max_size=4)
MOMENTS = st.sampled_from([0, 1, -1, 10**6, 1_767_225_600_000_000, 2**62, -(2**62)])
LENGTHS = st.sampled_from([0, 1, -1, 10**6, 3_600_000_000, 2**61])
ISO = st.sampled_from(["1970-01-01", "2026-01-01T00:00:00+00:00", "2026-01-01 01:00:00+01:00"])


def columns(size: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Columns]:
    """Draw the values of all columns, NULL among them."""
    drawn: dict[str, st.SearchStrategy[Any]] = {"i": WHOLE, "j": WHOLE, "x": DOUBLES, "y": DOUBLES}
    drawn |= {"s": TEXT, "r": TEXT, "b": st.booleans(), "c": st.booleans()}
    drawn |= {"t": MOMENTS, "u": MOMENTS, "p": LENGTHS, "nothing": st.none()}

    def of_size(length: int) -> st.SearchStrategy[Columns]:
        lists = {
            name: st.lists(values, min_size=length, max_size=length)
            | st.lists(values | st.none(), min_size=length, max_size=length)
            for name, values in drawn.items()
        }
        return st.fixed_dictionaries(lists)

    return (size if size is not None else st.integers(0, 5)).flatmap(of_size)


def attribute(name: str) -> tree.Attribute:
    variable, own = tree.Name(span=HERE, text="S"), tree.Name(span=HERE, text=name)
    return tree.Attribute(span=HERE, variable=variable, attribute=own)


def literal(value: bool | float | str | None) -> tree.Literal:  # noqa: FBT001  # it is the value
    return tree.Literal(span=HERE, value=value)


def call(function: str, *arguments: tree.Expression) -> tree.Call:
    return tree.Call(span=HERE, function=function, arguments=arguments)


def binary(operator: str, left: tree.Expression, right: tree.Expression) -> tree.Binary:
    return tree.Binary(span=HERE, operator=operator, left=left, right=right)


def minus(operand: tree.Expression) -> tree.Unary:
    return tree.Unary(span=HERE, operator="-", operand=operand)


def duration(microseconds: int) -> tree.Duration:
    return tree.Duration(span=HERE, microseconds=microseconds)


Drawn = st.SearchStrategy[Any]


def leaves(names: str, literals: Drawn) -> Drawn:
    columns = st.sampled_from([attribute(name) for name in names])
    return columns | columns | literals.map(literal) | st.just(literal(None))


def calls(functions: list[str], *arguments: Drawn) -> Drawn:
    return st.builds(call, st.sampled_from(functions), *arguments)


def binaries(operators: str, left: Drawn, right: Drawn) -> Drawn:
    return st.builds(binary, st.sampled_from(operators.split()), left, right)


def choices(operand: Drawn) -> Drawn:
    two = calls(["COALESCE", "GREATEST", "LEAST", "NULLIF"], operand, operand)
    return two | calls(["COALESCE", "GREATEST", "LEAST"], operand, operand, operand)


def digits() -> Drawn:
    """Draw how far ROUND rounds: a constant or a column. Python's decimals end at a million."""
    columns = st.builds(binary, st.just("%"), leaves("ij", SMALL), st.just(literal(21)))
    return columns | (st.integers(-25, 25) | st.sampled_from([330, -330])).map(literal)


@cache
def whole_numbers(depth: int) -> Drawn:
    own = leaves("ij", WHOLE)
    if depth == 0:
        return own
    inner, text = whole_numbers(depth - 1), texts(depth - 1)
    return st.one_of(
        own,
        binaries("+ - * %", inner, inner),
        inner.map(minus),
        calls(["ABS", "ROUND"], inner),
        calls(["ROUND"], inner, digits()),
        calls(["MOD"], inner, inner),
        calls(["LENGTH"], text),
        choices(inner),
    )


@cache
def doubles(depth: int) -> Drawn:
    own = leaves("xy", DOUBLES)
    if depth == 0:
        return own
    inner, whole = doubles(depth - 1), whole_numbers(depth - 1)
    either = inner | whole
    return st.one_of(
        own,
        binaries("+ - * %", inner, either),
        binaries("+ - * %", either, inner),
        binaries("/", either, either),
        inner.map(minus),
        calls(["ABS", "ROUND"], inner),
        calls(["ROUND"], inner, digits()),
        calls(["SQRT", "EXP", "LN", "LOG2", "LOG10", "SIGN"], either),
        calls(["POWER"], either, either),
        choices(inner),
    )


@cache
def texts(depth: int) -> Drawn:
    own = leaves("sr", TEXT)
    if depth == 0:
        return own
    inner, small = texts(depth - 1), leaves("ij", SMALL)
    return st.one_of(
        own,
        calls(["LOWER", "UPPER", "TRIM", "CONCAT"], inner),
        calls(["CONCAT"], inner, inner, own),
        calls(["SUBSTRING"], inner, small),
        calls(["SUBSTRING"], inner, small, small),
        choices(inner),
    )


@cache
def moments(depth: int) -> Drawn:
    own = st.sampled_from([attribute("t"), attribute("u")])
    return own if depth == 0 else own | binaries("+ -", own, lengths(depth - 1)) | choices(own)


@cache
def lengths(depth: int) -> Drawn:
    own = st.just(attribute("p")) | LENGTHS.map(abs).map(duration)
    if depth == 0:
        return own
    number = whole_numbers(depth - 1) | doubles(depth - 1)
    both = binaries("-", moments(0), moments(0)) | binaries("+ -", own, own)
    return own | both | binaries("* /", own, number) | own.map(minus)


@cache
def comparable(depth: int) -> Drawn:
    """Draw lists of three values that can be compared with each other."""
    whole = whole_numbers(depth)
    number = st.one_of(whole, doubles(depth), calls(["FLOOR", "CEIL"], doubles(depth)))
    kinds = [number, number, whole, texts(depth), leaves("bc", st.booleans())]
    kinds += [moments(depth), lengths(depth)]
    same_kind = st.one_of([st.tuples(kind, kind, kind) for kind in kinds])
    with_text = st.tuples(moments(depth), ISO.map(literal), moments(depth) | ISO.map(literal))
    return same_kind | with_text | st.tuples(number, st.just(attribute("nothing")), number)


@cache
def conditions(depth: int) -> Drawn:
    flags = st.booleans()
    values = comparable(1)
    lists = st.one_of(
        [st.lists(v, min_size=1, max_size=12) for v in (WHOLE, DOUBLES, WHOLE | DOUBLES)]
    )
    numbers = whole_numbers(0) | doubles(0)

    def compared(three: tuple[Any, Any, Any], form: str, negated: bool) -> tree.Expression:  # noqa: FBT001  # drawn
        one, two, three_ = three
        if form == "between":
            return tree.Between(span=HERE, operand=one, low=two, high=three_, negated=negated)
        if form == "in":
            return tree.InList(span=HERE, operand=one, items=(two, three_), negated=negated)
        return binary(form, one, two)

    own = st.one_of(
        leaves("bc", flags),
        st.builds(compared, values, st.sampled_from([*COMPARISONS, "between", "in"]), flags),
        st.builds(
            lambda one, items, negated: tree.InList(
                span=HERE, operand=one, items=tuple(map(literal, items)), negated=negated
            ),
            *(numbers, lists | lists.map(lambda items: [*items, None]), flags),
        ),
        st.builds(
            lambda one, items, negated: tree.InList(
                span=HERE, operand=one, items=tuple(map(literal, items)), negated=negated
            ),
            *(texts(0), st.lists(TEXT | st.none(), min_size=1, max_size=6), flags),
        ),
        st.builds(
            lambda one, pattern, negated: tree.Like(
                span=HERE, operand=one, pattern=pattern, negated=negated
            ),
            *(texts(1), texts(0), flags),
        ),
        st.builds(
            lambda one, negated: tree.IsNull(span=HERE, operand=one, negated=negated),
            *(numbers | texts(1), flags),
        ),
    )
    if depth == 0:
        return own
    inner = conditions(depth - 1)
    operands = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        own,
        inner.map(lambda one: tree.Unary(span=HERE, operator="NOT", operand=one)),
        st.builds(
            lambda operator, three: tree.Logical(span=HERE, operator=operator, operands=three),
            *(st.sampled_from(["AND", "OR"]), operands),
        ),
    )


@given(columns(), conditions(2))
def test_conditions_are_those_of_the_oracle(data: Columns, expression: tree.Expression) -> None:
    check(expression, data)


@given(columns(), st.one_of(whole_numbers(2), doubles(2), texts(2), moments(2), lengths(2)))
def test_values_are_those_of_the_oracle(data: Columns, expression: tree.Expression) -> None:
    check(expression, data)


@given(columns(), comparable(2), st.sampled_from(COMPARISONS))
def test_comparisons_are_those_of_the_oracle(
    data: Columns, operands: tuple[Any, Any, Any], operator: str
) -> None:
    check(binary(operator, operands[0], operands[1]), data)


LAYOUTS = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@given(columns(st.integers(0, 8)), conditions(0) | texts(2), st.sampled_from(LAYOUTS))
def test_every_layout_of_text_gives_the_same(
    data: Columns, expression: tree.Expression, layout: pa.DataType
) -> None:
    check(expression, data, layout)
