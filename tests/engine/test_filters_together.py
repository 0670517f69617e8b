"""Many filters over the same events find what each of them finds alone."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import cepheid
from cepheid.arrays.event_parts import TablePart
from cepheid.kinds.workload.filters import Filters, is_filter
from cepheid.plans.plan import SelectPlan

TEXTS = ["cmd.exe", "CMD.EXE", "sh", "power%", "a_b", "", None, "xcmd.exe.bak", "Ärger", "md.ex"]
TEXTS += ["powershell.exe", "power", "a_b_c_d"]


LIKE = ["%cmd.exe", "cmd.exe%", "%md.e%", "power\\%%", "a\\_b%", "%o_er%", "%rger", "%hell%xe"]
LONG = ["cmd.exe", "powershell.exe", "ärger", "Ärger", "power%", "md.ex"]


def _events(rng: random.Random, count: int) -> pa.Table:
    def column(values: list[Any]) -> list[Any]:
        return [rng.choice(values) for _ in range(count)]

    return pa.table(
        {
            "ts": range(count),
            "type": column(["x", "y"]),
            "name": pa.array(column(TEXTS), pa.string()),
            "other": pa.array(column(TEXTS), pa.string()),
            "n": pa.array(column([1, 2, 3, None]), pa.int64()),
            "f": pa.array(column([0.5, float("nan"), None]), pa.float64()),
            "nothing": pa.nulls(count),
            "at": pa.array(column([{"x": 1}, {"x": 2}, None]), pa.struct([("x", pa.int64())])),
        }
    )


def _condition(rng: random.Random, depth: int = 0) -> str:
    plain = [
        f"LOWER(name) LIKE '%{rng.choice(['exe', 'md', 'q'])}%'",
        f"name = '{rng.choice(['sh', 'cmd.exe'])}'",
        f"n {rng.choice(['=', '<', '<>'])} {rng.randint(1, 3)}",
        "n IS NULL", "name IS NOT NULL", "f > 0.1", "nothing IS NULL", "nothing = 'a'",
        "LOWER(other) = LOWER(name)", "at.x = 2", "LENGTH(name) > n", "n IN (1, 3)",
        "LOWER(nothing) = 'a'", "REGEX_MATCH(other, '^c')",
        f"LOWER(name) LIKE '{rng.choice(LIKE)}'", f"other NOT LIKE '{rng.choice(LIKE)}'",
        f"LOWER(other) IN ('{rng.choice(LONG)}', '{rng.choice(LONG)}')",
        f"name = '{rng.choice(LONG)}'", f"'{rng.choice(LONG)}' = other",
        f"name IN ('{rng.choice(LONG)}', 'sh')", "nothing LIKE '%cmd.exe%'",
    ]  # fmt: skip
    if depth > 2 or rng.random() < 0.3:
        return rng.choice(plain)
    one, two = _condition(rng, depth + 1), _condition(rng, depth + 1)
    form = rng.choice(
        ["({} AND {})", "({} OR {})", "NOT COALESCE({}, FALSE) AND {}", "NOT ({}) OR {}"]
    )
    return form.format(one, two)


@pytest.mark.parametrize("seed", range(6))
def test_filters_together_find_what_each_finds_alone(seed: int) -> None:
    rng = random.Random(seed)
    events = _events(rng, 60)
    head = ["type = 'x' AND n = 1 AND ", "type = 'x' AND ", ""]
    items = ["*", "ts, name", "n + 1 AS m, ts"]
    texts = {
        f"q{n}": f"SELECT {rng.choice(items)} FROM s WHERE {rng.choice(head)}{_condition(rng)}"
        for n in range(40)
    }
    plans: dict[str, SelectPlan] = {}
    for name, text in texts.items():
        plan = cepheid.query(text).with_schema(events.schema).plan
        assert isinstance(plan, SelectPlan)
        assert is_filter(plan)
        plans[name] = plan
    together = Filters(plans, events.schema)
    for begin in (0, 20, 20):
        together.add(TablePart(events.slice(begin, 20)))
    together.add(TablePart(events.slice(0, 0)))
    found = together.end()
    read = pa.concat_tables([events.slice(0, 20), events.slice(20, 20), events.slice(20, 20)])
    for name, text in texts.items():
        alone = cepheid.query(text).run(read)
        assert str(found[name].to_pylist()) == str(alone.to_pylist()), text
        assert found[name].schema.names == alone.schema.names


OTHERS = ("SELECT * FROM s ORDER BY n", "SELECT COUNT(*) FROM s", "PATTERN A")


@pytest.mark.parametrize("text", [*OTHERS, "SELECT * FROM s LIMIT 1"])
def test_other_queries_are_no_filters(text: str) -> None:
    schema = {"ts": "timestamp", "type": "string", "n": "long"}
    assert not is_filter(cepheid.query(text).with_schema(schema).plan)
