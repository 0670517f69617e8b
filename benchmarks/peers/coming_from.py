"""Run the other side of the page `coming-from`, and write its answers for the tests.

python -m benchmarks.peers.coming_from [CASE ...]

Esper, Flink SQL, Flink CEP and ClickHouse (chdb) are installed as for `make bench-peers`. Each case
is a text of the page and a few events; a pattern of Flink CEP, which is Java, is put into the
program that runs it. The rows go to ``tests/docs/coming_from.json``. A test compares ours.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.systems import BUILD, OPENS, ROOT, SOURCES, SYSTEMS, JavaSystem

PAGE = ROOT / "docs" / "coming-from.md"
ANSWERS = ROOT / "tests" / "docs" / "coming_from.json"
BLOCK = re.compile(r"^```text[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MINUTE_MS = 60_000
Event = dict[str, Any]


class Case(NamedTuple):
    """A text of the page, found by a part of it, and the events that it is asked about.

    Events have ``ms`` and ``type``, and the columns of their type in the order of ``columns``.
    """

    system: str
    part: str
    columns: dict[str, dict[str, str]]
    draw: Callable[[random.Random, int], Event]
    number: int = 60


def _withdrawal(rng: random.Random, _: int) -> Event:
    return {"type": "Withdrawal", "card": rng.choice("ab"), "place": rng.choice("xyz")}


def _trade(rng: random.Random, _: int) -> Event:
    return {"type": "Trade", "symbol": rng.choice("ab"), "price": float(rng.randint(1, 9))}


def _unpaid(rng: random.Random, place: int) -> Event:
    known = rng.randint(max(0, place - 6), place)
    paid = {"type": "Payment", "id": known}
    return rng.choice([{"type": "Purchase", "id": place}, paid])


def _order(rng: random.Random, _: int) -> Event:
    return {"type": "orders", "customer": rng.choice(["ann", "bob"]), "price": rng.randint(1, 9)}


def _paid(rng: random.Random, _: int) -> Event:
    kind = rng.choice(["orders", "payments"])
    return {"type": kind, "id": rng.randint(1, 12), "price": rng.randint(1, 9)}


def _ticker(rng: random.Random, _: int) -> Event:
    return {"type": "Ticker", "symbol": rng.choice("ab"), "price": rng.randint(1, 9)}


def _click(rng: random.Random, _: int) -> Event:
    kind = rng.choice(["view", "cart", "buy"])
    user = rng.choice(["ann", "bob", "cid", "dan"])
    return {"type": kind, "user": user, "price": rng.randint(1, 9)}


def _login(rng: random.Random, _: int) -> Event:
    return {"type": "login", "user": rng.choice(["ann", "bob"]), "ok": rng.random() < 0.3}


def _price(rng: random.Random, _: int) -> Event:
    kind = rng.choice(["price", "price", "price", "order"])
    return {"type": kind, "item": rng.choice("ab"), "value": float(rng.randint(1, 9))}


def _late(rng: random.Random, place: int) -> Event:
    kind = rng.choice(["order", "payment"])
    return {"type": kind, "id": place if kind == "order" else rng.randint(0, place)}


CLICKS = {"events": {"type": "String", "user": "String", "price": "Int64"}}
CASES = {
    "esper withdrawals": Case(
        "esper",
        "every a=Withdrawal",
        {"Withdrawal": {"card": "string", "place": "string"}},
        _withdrawal,
    ),
    "esper trades": Case(
        "esper",
        "from Trade#time(10 min)",
        {"Trade": {"symbol": "string", "price": "double"}},
        _trade,
        280,
    ),
    "esper unpaid": Case(
        "esper",
        "every o=Purchase",
        {"Purchase": {"id": "long"}, "Payment": {"id": "long"}},
        _unpaid,
    ),
    "flink sales": Case(
        "flink_sql",
        "FROM TABLE(TUMBLE(TABLE orders",
        {"orders": {"customer": "STRING", "price": "BIGINT"}},
        _order,
    ),
    "flink payments": Case(
        "flink_sql",
        "FROM orders o, payments p",
        {name: {"id": "BIGINT", "price": "BIGINT"} for name in ("orders", "payments")},
        _paid,
    ),
    "flink falls": Case(
        "flink_sql",
        "FROM Ticker MATCH_RECOGNIZE",
        {"Ticker": {"symbol": "STRING", "price": "BIGINT"}},
        _ticker,
    ),
    "flink cep logins": Case(
        "flink_cep", '.followedBy("done")', {"": {"user": "", "ok": ""}}, _login
    ),
    "flink cep falls": Case(
        "flink_cep", "new FallingPrice()", {"": {"item": "", "value": ""}}, _price, 90
    ),
    "flink cep late": Case("flink_cep", "TimedOutPartialMatchHandler", {"": {"id": ""}}, _late),
    "clickhouse funnel": Case("chdb", "windowFunnel(60, 'strict_increase'", CLICKS, _click),
    "clickhouse chains": Case("chdb", "sequenceCount('(?1).*(?2)')(ts", CLICKS, _click),
    "clickhouse users": Case("chdb", "uniqExact(user) AS users", CLICKS, _click),
}


def text_of(part: str) -> str:
    """Find the text of the page that has a part."""
    (text,) = (one for one in BLOCK.findall(PAGE.read_text("utf-8")) if part in one)
    return str(text).strip().removesuffix(";")


def events_of(name: str) -> list[Event]:
    """Draw the events of a case; no two have the same time."""
    rng, case = random.Random(name), CASES[name]
    longest = 5_000 if case.draw is _trade else 3 * MINUTE_MS
    found, now = [], 0
    for place in range(case.number):
        now += rng.randint(1, longest)
        found.append({"ms": now, **case.draw(rng, place)})
    return found


# ---------------------------------------------------------------------------------------
# Systems


def _java(
    system: str, program: str, *files: Path | str, source: Path | None = None
) -> Iterator[dict[str, str]]:
    known = SYSTEMS[system]
    assert isinstance(known, JavaSystem), "it runs on a JVM"
    jars = f"{BUILD / known.jars}/*"
    classes = str(BUILD / f"{program}-classes")
    source = source or SOURCES / f"{program}.java"
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", classes, str(source)], check=True)
    opens = [word for name in OPENS for word in ("--add-opens", name)]
    command = ["java", *opens, "-cp", f"{classes}{os.pathsep}{jars}", program, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    for line in done.stdout.splitlines():
        yield dict(part.split("=", 1) for part in line.split("\t"))


def _esper(case: Case, events: list[Event], folder: Path) -> list[dict[str, str]]:
    schemas = [
        f"@public @buseventtype create objectarray schema {name} "
        f"({', '.join(f'{column} {kind}' for column, kind in columns.items())});"
        for name, columns in case.columns.items()
    ]
    module, lines = folder / "module.epl", folder / "events.tsv"
    module.write_text("\n".join([*schemas, text_of(case.part) + ";"]))
    rows = [[e["ms"], e["type"], *(e[c] for c in case.columns[e["type"]])] for e in events]
    lines.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return list(_java("esper", "PageEsper", module, lines))


def _flink(case: Case, events: list[Event], folder: Path) -> list[dict[str, str]]:
    statements = []
    for name, columns in case.columns.items():
        file = folder / f"{name}.csv"
        rows = [[e["ms"], *(e[c] for c in columns)] for e in events if e["type"] == name]
        file.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        listed = "".join(f"`{column}` {kind}, " for column, kind in columns.items())
        time = "ts AS CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP(3)), WATERMARK FOR ts AS ts"
        source = f"'connector' = 'filesystem', 'path' = 'file://{file}', 'format' = 'csv'"
        statements.append(
            f"CREATE TEMPORARY TABLE {name} (ms BIGINT, {listed}{time}) WITH ({source})"
        )
    script = folder / "script.sql"
    script.write_text("\n;\n".join([*statements, text_of(case.part)]))
    return list(_java("flink_sql", "PageFlink", script))


def _flink_cep(case: Case, events: list[Event], folder: Path) -> list[dict[str, str]]:
    program = (SOURCES / "PageCep.java").read_text("utf-8")
    assert "/*PATTERN*/" in program
    source, lines = folder / "PageCep.java", folder / "events.tsv"
    source.write_text(program.replace("/*PATTERN*/", text_of(case.part) + "\n"), "utf-8")
    key, *value = case.columns[""]
    rows = [[e["ms"], e["type"], e[key], float(e[value[0]]) if value else 0.0] for e in events]
    lines.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    which = "late" if "TimedOut" in case.part else "matches"
    return list(_java("flink_cep", "PageCep", lines, which, source=source))


def _clickhouse(case: Case, events: list[Event], folder: Path) -> list[dict[str, str]]:
    file = folder / "events.jsonl"
    listed = ", ".join(f"{column} {kind}" for column, kind in case.columns["events"].items())
    rows = [{**event, "ts": event["ms"] // 1000} for event in events]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = f"file('{file}', 'JSONEachRow', 'ts DateTime(\\'UTC\\'), {listed}')"
    text = text_of(case.part).replace("FROM events", f"FROM {source}")
    program = "import chdb, sys; print(chdb.query(sys.argv[1], 'JSONEachRow'))"
    python = str(BUILD / "chdb" / "bin" / "python")
    done = subprocess.run([python, "-c", program, text], capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    return [{name: str(value) for name, value in row.items()} for row in rows]


RUN = {"esper": _esper, "flink_sql": _flink, "flink_cep": _flink_cep, "chdb": _clickhouse}


def main() -> None:
    """Write the texts and the rows of all cases, or anew of those that are asked for."""
    asked = sys.argv[1:] or [*CASES]
    found = json.loads(ANSWERS.read_text("utf-8")) if sys.argv[1:] else {}
    for system in {CASES[name].system for name in asked}:
        SYSTEMS[system].install()
    for name in asked:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            events = events_of(name)
            rows = RUN[case.system](case, events, Path(folder))
        version = SYSTEMS[case.system].version()
        found[name] = {"version": version, "text": text_of(case.part), "rows": rows}
        print(f"{name}: {len(rows)} rows of {SYSTEMS[case.system].title} {version}")
    ANSWERS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
