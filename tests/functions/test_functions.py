"""Functions of one's own in process: how they are defined, called and refused (§20)."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from tests.functions.cases import KINDS, QUERIES, SELECTS, TIMED, events, rows_of
from tests.interfaces.program import run as run_program

import cepheid
from cepheid.errors import BindError, CepheidError, DataError
from cepheid.expressions import own
from cepheid.expressions.own import OwnFunction
from cepheid.options import OptionError
from cepheid.plans.plan import Plan


def twice(x: Any) -> Any:
    return pc.multiply(x, 2.0)


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    cepheid.function("twice", twice, returns="double", types=["double"])
    cepheid.function("initial", lambda t: pc.utf8_slice_codeunits(t, 0, 1), returns="string")
    cepheid.function("half_known", lambda x, t: pc.xor(x.is_null(), t.is_null()), returns="boolean")
    yield
    for name in ("TWICE", "INITIAL", "HALF_KNOWN", "OTHER"):
        own.forget(name)


def local(name: str, call: Any, returns: object = "double", **more: Any) -> OwnFunction:
    return cepheid.function(name, call, returns=returns, register=False, **more)


# What the built-in way to write the same finds.
PLAIN = {
    "twice(a.x)": "(a.x * 2.0)",
    "twice(b.x)": "(b.x * 2.0)",
    "twice(x)": "(x * 2.0)",
    "twice(SUM(x))": "(SUM(x) * 2.0)",
    "twice(COUNT(*))": "(COUNT(*) * 2.0)",
    "twice(NEXT(a).x)": "(NEXT(a).x * 2.0)",
    "twice(a.x - NEXT(a).x)": "((a.x - NEXT(a).x) * 2.0)",
    "initial(n)": "SUBSTRING(n, 1, 1)",
    "initial(b.n)": "SUBSTRING(b.n, 1, 1)",
    "initial(a.n)": "SUBSTRING(a.n, 1, 1)",
    "half_known(x, n)": "(x IS NULL AND n IS NOT NULL OR x IS NOT NULL AND n IS NULL)",
    "half_known(b.x, b.n)": (
        "(b.x IS NULL AND b.n IS NOT NULL OR b.x IS NOT NULL AND b.n IS NULL)"
    ),
}


@pytest.mark.parametrize("text", [*QUERIES, *SELECTS, *TIMED])
def test_a_call_finds_what_the_same_expression_finds(text: str) -> None:
    plain = text
    for call, expression in PLAIN.items():
        plain = plain.replace(call, expression)
    assert plain != text
    found, expected = cepheid.query(text).run(events()), cepheid.query(plain).run(events())
    assert rows_of(found) == rows_of(expected)


@pytest.mark.parametrize("text", [*QUERIES, *SELECTS, *TIMED])
def test_a_store_finds_the_same(text: str, tmp_path: Path) -> None:
    store = cepheid.EventStore(tmp_path / "store")
    store.append(events())
    compiled = cepheid.query(text)
    streams: Any = dict.fromkeys(set(compiled.plan.streams), store) or store
    streams = store if len(set(compiled.plan.streams)) < 2 else streams
    assert rows_of(compiled.run(streams)) == rows_of(compiled.run(events()))


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_have_the_usual_type_of_their_kind(kind: str) -> None:
    seen = []

    def same(values: Any, one: Any) -> Any:
        seen.append((values.type, one.type, len(values), len(one)))
        return values

    table = pa.table({"ts": [1, 2], "v": KINDS[kind]})
    text = "SELECT same(v, 1) AS w FROM s"
    q = cepheid.query(text, functions=[local("same", same, kind)])
    assert q.run(table)["w"].to_pylist() == table["v"].to_pylist()
    assert seen == [(table["v"].type, pa.int64(), 2, 2)]


def test_a_result_may_be_narrower_or_all_null() -> None:
    narrow = local("narrow", lambda x: pc.cast(x, pa.float32()))
    whole = local("whole", lambda x: pa.array([1] * len(x), pa.int8()))
    null = local("nothing", lambda x: pa.nulls(len(x)))
    chunks = local("chunks", lambda x: pa.chunked_array([x]))
    text = "SELECT narrow(x) AS a, whole(x) AS b, nothing(x) AS c, chunks(x) AS d FROM s"
    found = cepheid.query(text, functions=[narrow, whole, null, chunks]).run(events())
    assert [str(field.type) for field in found.schema] == ["double"] * 4
    assert found.slice(0, 1).to_pylist() == [{"a": 1.0, "b": 1.0, "c": None, "d": 1.0}]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: 1 / 0, "the function `OTHER` raised ZeroDivisionError: division by zero"),
        (lambda x: x[1:], "the function `OTHER` gave 7 values for 8 events"),
        (lambda x: x.to_pylist(), "gave `builtins.list` and not an array of pyarrow"),
        (lambda x: pc.cast(x, pa.string()), "gave values of type string, and promised double"),
        (lambda x, y: pc.add(x, y), "the function `OTHER` raised TypeError"),
        (lambda _: cepheid.query("x"), "the function `OTHER` raised QuerySyntaxError: error[E101]"),
    ],
)
def test_what_a_function_does_wrong_is_a_diagnostic(call: Any, message: str) -> None:
    q = cepheid.query("SELECT other(x) AS y FROM s", functions=[local("other", call)])
    with pytest.raises(DataError, match="E574") as caught:
        q.run(events())
    assert message in str(caught.value)


def test_a_function_that_return_does_not_take_is_not_taken_for_a_typing_mistake() -> None:
    with pytest.raises(BindError, match="E317") as caught:
        cepheid.query("RETURN f(SUM(A.x)) AS y PATTERN A+", functions=[local("f", twice)])
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT twice() AS y FROM s", "E205"),
        ("SELECT twice(x, x) AS y FROM s", "E205"),
        ("SELECT twice(n) AS y FROM s", "E206"),
        ("SELECT thrice(x) AS y FROM s", "E203"),
        ("PATTERN A a WHERE twice(a.x)", "E207"),
        (
            "SELECT * FROM s MATCH_RECOGNIZE (ORDER BY ts PATTERN (A) DEFINE A AS twice() = 1)",
            "E608",
        ),
    ],
)
def test_calls_that_do_not_fit_are_refused(text: str, code: str) -> None:
    with pytest.raises(BindError, match=code):
        cepheid.query(text, schema=events().schema)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("sum", twice, "double"), "E593"),
        (("Ceiling", twice, "double"), "E593"),
        (("where", twice, "double"), "E593"),
        (("prev", twice, "double"), "E593"),
        (("two words", twice, "double"), "E593"),
        (("twice", lambda x: x, "double"), "E593"),
        (("other", 5, "double"), "E592"),
        (("other", twice, "list<int>"), "E592"),
        (("other", twice, "dobule"), "E592"),
    ],
)
def test_definitions_that_do_not_fit_are_refused(
    arguments: tuple[str, Any, object], code: str
) -> None:
    name, call, returns = arguments
    with pytest.raises(OptionError, match=code):
        cepheid.function(name, call, returns=returns)


def test_types_are_a_list() -> None:
    wrong: list[Any] = ["double", [], 5]
    for types in wrong:
        with pytest.raises(OptionError, match="E592"):
            cepheid.function("other", twice, returns="double", types=types)


def test_the_same_function_may_be_registered_again_and_another_replaces_it() -> None:
    text = "SELECT twice(x) AS y FROM s WHERE ts = 2"
    before = cepheid.query(text)
    cepheid.function("twice", twice, returns="double", types=["double"])
    cepheid.function("twice", lambda x: pc.multiply(x, 20.0), returns="double", replace=True)
    after = cepheid.query(text)
    # A query keeps the function that it was made with.
    found = [q.run(events()).to_pylist() for q in (before, after)]
    assert found == [[{"y": 6.0}], [{"y": 60.0}]]


def test_functions_that_are_given_hide_registered_ones() -> None:
    ten = local("other", lambda x: pc.multiply(x, 10.0))
    text = "SELECT other(x) AS y FROM s WHERE ts = 2"
    assert cepheid.query(text, functions=[ten]).run(events()).to_pylist() == [{"y": 30.0}]
    nothing: list[Any] = [[], None]
    for given in nothing:
        with pytest.raises(BindError, match="E203"):
            cepheid.query(text, functions=given)
    with pytest.raises(BindError, match="E203"):
        cepheid.query("SELECT twice(x) AS y FROM s", functions=[ten])
    for wrong in ([twice], "other", 5):
        with pytest.raises(OptionError, match="E592"):
            cepheid.query(text, functions=wrong)  # type: ignore[arg-type]  # that is the point
    other = local("other", lambda x: x)
    with pytest.raises(OptionError, match="E593"):
        cepheid.query(text, functions=[ten, other])


def test_pipelines_and_workloads_take_functions() -> None:
    ten = local("other", lambda x: pc.multiply(x, 10.0))
    made = cepheid.pipeline(
        {
            "High": "SELECT x FROM s WHERE other(x) > 35",
            "n": "RETURN COUNT(*) PATTERN High h WHERE other(h.x) < 60 WITHIN 9 us SLIDE 9 us",
        },
        functions=[ten],
    )
    found = made.run(events()).to_pylist()
    assert found == [{"window_start": 0, "window_end": 9, "count": 2}]
    assert made.plan.functions == (ten,)
    queries = {
        "a": "RETURN COUNT(*) PATTERN A a WHERE other(a.x) > 15",
        "b": "SELECT other(x) AS y FROM s WHERE ts = 1",
    }
    workload = cepheid.workload(queries, functions=[ten])
    assert workload.run(events()).to_pylist() == [
        {"query": "a", "count": 2, "y": None},
        {"query": "b", "count": None, "y": 10.0},
    ]


ROW_PATTERN = """
    SELECT twice(y) AS z FROM s MATCH_RECOGNIZE (
        ORDER BY ts MEASURES twice(LAST(B.x)) AS y, SUM(twice(B.x)) AS all_b
        PATTERN (A B+) DEFINE A AS initial(n) = 'a', B AS twice(x) > A.x AND twice(x) > twice(A.x)
    )"""


def test_row_patterns_call_them() -> None:
    plain = ROW_PATTERN.replace("initial(n)", "SUBSTRING(n, 1, 1)")
    for name in ("y", "LAST(B.x)", "B.x", "x", "A.x"):
        plain = plain.replace(f"twice({name})", f"({name} * 2.0)")
    expected = cepheid.query(plain).run(events()).to_pylist()
    assert expected
    assert cepheid.query(ROW_PATTERN).run(events()).to_pylist() == expected
    assert cepheid.sql(ROW_PATTERN, tables={"s": events()}).to_pylist() == expected


def test_a_state_goes_on_with_a_function_of_the_same_name() -> None:
    text = "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE twice(a.x) < b.x WITHIN 9 us SLIDE 9 us"
    live = cepheid.query(text).live(events().schema)
    live.feed(events().slice(0, 4))
    state = live.save()
    # As in a process that has defined it anew.
    anew = {"returns": "double", "types": ["double"]}
    cepheid.function("twice", lambda x: pc.multiply(x, 2.0), replace=True, **anew)  # type: ignore[arg-type]  # one dict for all
    again = cepheid.query(text).live(events().schema, state=state)
    again.feed(events().slice(4))
    assert again.close().to_pylist() == cepheid.query(text).run(events()).to_pylist()
    other = text.replace("twice(a.x)", "half_known(a.x, a.n) = TRUE AND a.x")
    with pytest.raises(DataError, match="E524"):
        cepheid.query(other).live(events().schema, state=state)


def test_a_plan_names_functions_and_a_task_gets_their_code() -> None:
    plan = cepheid.query("PATTERN A a WHERE twice(a.x) > 3").plan
    assert [one.name for one in plan.functions] == ["TWICE"]
    assert b"multiply" not in plan.to_json()
    assert Plan.from_json(plan.to_json()) == plan
    ten = local("lonely", lambda x: pc.multiply(x, 10.0))
    sent: bytes = cloudpickle.dumps(ten)  # type: ignore[no-untyped-call]  # as Spark calls it
    own._CALLEES.pop((ten.name, ten.edition))
    with pytest.raises(DataError, match="E575"):
        _ = ten.callee
    arrived = pickle.loads(sent)
    assert arrived == ten
    assert arrived.callee(pa.array([1.0])).to_pylist() == [10.0]


def test_explain_writes_the_call() -> None:
    text = cepheid.query("RETURN COUNT(*) PATTERN A a+ WHERE twice(a.x) > NEXT(a).x").explain()
    assert "TWICE(a.x) > NEXT(a).x" in text


def test_the_command_line_imports_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_rules_of_a_test.py").write_text(
        "import cepheid\ncepheid.function('other', lambda x: x, returns='bigint')\n"
    )
    (tmp_path / "events.csv").write_text("ts,x\n1,5\n2,7\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = ["run", "-q", "SELECT other(x) AS y FROM s WHERE other(x) > 6", "--input"]
    words += [str(tmp_path / "events.csv"), "--format", "csv"]
    done = run_program("--functions", "shop_rules_of_a_test", *words)
    assert (done.returncode, done.stdout) == (0, '"y"\n7\n'), done.stderr
    assert run_program("--functions", "no_such_module_here", *words).returncode == 2
    assert run_program("--functions", "os; x", *words).returncode == 2


def test_errors_in_text_of_functions_are_told_on_one_line() -> None:
    def loud(_: Any) -> Any:
        message = "first\nsecond"
        raise ValueError(message)

    q = cepheid.query("SELECT other(x) AS y FROM s", functions=[local("other", loud)])
    with pytest.raises(CepheidError, match=r"raised ValueError: first$"):
        q.run(events())


def test_a_callable_lives_as_long_as_something_names_it() -> None:
    class Doubling:
        def __call__(self, x: Any) -> Any:
            return pc.multiply(x, 2)

    call = Doubling()
    alive = weakref.ref(call)
    given = cepheid.function("fleeting", call, returns="bigint", types=["bigint"], register=False)
    again = cepheid.function("fleeting", call, returns="bigint", types=["bigint"], register=False)
    assert given.edition == again.edition
    compiled = cepheid.query("SELECT fleeting(x) AS y FROM s", functions=[given])
    del call, given, again
    gc.collect()
    table = pa.table({"ts": [1], "x": [3]})
    assert compiled.run(table).to_pylist() == [{"y": 6}]
    live = compiled.live(table.schema)
    del compiled
    gc.collect()
    live.feed(table)
    assert live.close().to_pylist() == [{"y": 6}]
    del live
    gc.collect()
    assert alive() is None
