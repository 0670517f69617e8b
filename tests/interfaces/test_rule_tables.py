"""Rules in tables of databases: SQLite, PostgreSQL, JDBC by Spark, and Delta."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.interfaces.program import run
from tests.interfaces.test_stream_command import two_files, write
from tests.interfaces.test_stream_rules import COUNTS, TRENDS, alerts, fit, options_of, texts_of
from tests.servers import Postgres, leave_out

from cepheid.errors import DataError
from cepheid.interfaces import rule_tables
from cepheid.interfaces.rule_queries import EventColumns, ready_rules
from cepheid.interfaces.rule_tables import RuleTable, rule_table
from cepheid.interfaces.rules import read_rules, stamp_of
from cepheid.interfaces.stream_rules import Rulebook, Source, stream_rules_in

CREATE = (
    "CREATE TABLE rules (name text PRIMARY KEY, query text, owner text, tags text, severity text, "
    "enabled boolean, rate_limit text, deduplicate text, parameters text, written_by text)"
)
FULL = (
    "INSERT INTO rules VALUES ('big', 'RETURN COUNT(*) PATTERN A WHERE A.x > {limit}', 'desk', "
    "'size, shop', 'high', false, '10 per 1 hour by user', NULL, 'limit=1,2', 'somebody')"
)


def table_at(place: str) -> RuleTable:
    found = rule_table(place)
    assert found is not None
    return found


def put(path: Path, *statements: str) -> str:
    """Change a file of SQLite; return the place of its rules."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return f"sqlite:{path}#rules"


def counting(name: str, text: str) -> str:
    return f"INSERT INTO rules (name, query) VALUES ('{name}', '{text}')"


def rulebook(table: RuleTable, complaints: list[str]) -> Rulebook:
    source = Source(lambda: ready_rules(table, EventColumns()), lambda: stamp_of(table))
    return Rulebook(source, complaints.append)


def code_of(place: str) -> tuple[str, str]:
    with pytest.raises(DataError) as caught:
        read_rules(table_at(place))
    found = caught.value.diagnostics[0]
    return found.code, found.message


def test_a_table_of_sqlite_has_all_fields_of_rules(tmp_path: Path) -> None:
    place = put(tmp_path / "my rules.db", CREATE, FULL, counting("counts", COUNTS))
    found = read_rules(table_at(place))
    assert list(found.rules) == ["big", "counts"]
    big = found.rules["big"]
    assert (big.owner, big.tags, big.severity, big.enabled) == ("desk", ("size", "shop"), "high", 0)
    assert big.rate_limit is not None
    assert big.rate_limit.rows == 10
    assert dict(big.parameters) == {"limit": ("1", "2")}
    done = run("check", "--rules", place)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "big: ok, 2 variants, off\ncounts: ok\n"


def test_a_bad_row_is_refused_alone_and_changes_are_seen(tmp_path: Path) -> None:
    place = put(tmp_path / "rules.db", CREATE, counting("counts", COUNTS))
    complaints: list[str] = []
    book = rulebook(table_at(place), complaints)
    book.fit(fit)
    assert not book.changed(fit)
    put(tmp_path / "rules.db", counting("wrong", "RETURN"), counting("trends", TRENDS))
    assert book.changed(fit)
    assert texts_of(book) == {"counts": COUNTS, "trends": TRENDS}
    assert "the rule `wrong` is refused: the other rules go on" in complaints[0]
    put(
        tmp_path / "rules.db",
        "UPDATE rules SET severity = 'loud' WHERE name = 'counts'",
        "DELETE FROM rules WHERE name = 'trends'",
    )
    assert book.changed(fit)
    assert texts_of(book) == {"counts": COUNTS}
    assert "the rule `counts` is refused: its version before goes on" in complaints[1]


def test_rules_go_on_while_their_database_is_away(tmp_path: Path) -> None:
    path = tmp_path / "rules.db"
    place = put(path, CREATE, counting("counts", COUNTS))
    complaints: list[str] = []
    book = rulebook(table_at(place), complaints)
    book.fit(fit)
    path.rename(tmp_path / "away.db")
    assert not book.changed(fit)
    assert not book.changed(fit)
    assert len(complaints) == 1
    assert "could not read the rules of the table `rules`" in complaints[0]
    assert "the rules before go on" in complaints[0]
    (tmp_path / "away.db").rename(path)
    put(path, counting("trends", TRENDS))
    assert book.changed(fit)
    assert list(book.rules) == ["counts", "trends"]


def test_what_names_no_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("sqlite:rules.db", "jdbc:mysql://host/db", "sqlite:a.db#b; DROP TABLE c"):
        with pytest.raises(DataError, match=r"E537.*names no table"):
            rule_table(place)
    with pytest.raises(DataError, match="E537"):
        rule_table("postgres://me:secret@host/rules")
    assert rule_table(str(tmp_path)) is None
    assert rule_table("rules/a:b.cq") is None
    path = tmp_path / "rules.db"
    place = put(path, CREATE)
    assert code_of(place) == ("E532", f"the table `rules` in `{path}` has no rules")
    assert code_of(f"sqlite:{path}#others")[0] == "E537"
    put(path, "CREATE TABLE select_ (name text)")
    assert code_of(f"sqlite:{path}#select_")[1].endswith("has no column `query`")
    put(path, counting("counts", COUNTS), counting("trends", TRENDS))
    monkeypatch.setattr(rule_tables, "RULES_MAX", 1)
    assert code_of(place) == ("E537", f"the table `rules` in `{path}` has more than 1 rows")


def test_a_password_is_in_no_message() -> None:
    table = table_at("postgres://me:secret@127.0.0.1:1/db/rules")
    assert "secret" not in str(table)
    with pytest.raises(DataError) as caught:
        read_rules(table)
    assert "E537" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in str(table_at("jdbc:mysql://host/db?password=secret#rules"))


def test_postgres(postgres: Postgres) -> None:
    library = pytest.importorskip("psycopg", reason="the fixture has it")
    name = f"rules_{uuid4().hex}"
    table = table_at(f"{postgres.url}/public.{name}")
    create = CREATE.replace("rules", name).replace("tags text", "tags text[]")
    create = create.replace("parameters text", "parameters jsonb")
    full = FULL.replace("INTO rules", f"INTO {name}").replace("'size, shop'", "'{size, shop}'")
    with library.connect(postgres.url, autocommit=True) as connection:
        connection.execute(create)
        connection.execute(full.replace("'limit=1,2'", """'{"limit": [1, 2]}'"""))
        connection.execute(counting("counts", COUNTS).replace("rules", name, 1))
        found = read_rules(table)
        big = found.rules["big"]
        assert (big.tags, big.enabled) == (("size", "shop"), False)
        assert dict(big.parameters) == {"limit": ("1", "2")}
        complaints: list[str] = []
        book = rulebook(table, complaints)
        book.fit(fit)
        assert not book.changed(fit)
        connection.execute(counting("wrong", "RETURN").replace("rules", name, 1))
        connection.execute(f"UPDATE {name} SET query = %s WHERE name = 'counts'", (TRENDS,))
        assert book.changed(fit)
    assert texts_of(book) == {"counts": TRENDS}
    assert "the rule `wrong` is refused" in complaints[0]


def test_delta(tmp_path: Path) -> None:
    if importlib.util.find_spec("deltalake") is None:
        leave_out("no deltalake: `make dev` installs it")
    import deltalake

    path = str(tmp_path / "rules")
    rows: dict[str, Any] = {
        "name": ["counts"],
        "query": [COUNTS],
        "tags": [["a", "b"]],
        "enabled": [True],
    }
    deltalake.write_deltalake(path, pa.table(rows))
    for place in (path, f"delta:{path}"):
        found = read_rules(table_at(place)).rules["counts"]
        assert (found.query, found.tags) == (COUNTS, ("a", "b"))
    complaints: list[str] = []
    book = rulebook(table_at(path), complaints)
    book.fit(fit)
    assert not book.changed(fit)
    more = pa.table(rows | {"name": ["wrong"], "query": ["RETURN"]})
    deltalake.write_deltalake(path, more, mode="append")
    assert not book.changed(fit)
    assert "the rule `wrong` is refused: the other rules go on" in complaints[0]
    deltalake.DeltaTable(path).delete("name = 'wrong'")
    deltalake.write_deltalake(path, pa.table(rows | {"name": ["trends"]}), mode="append")
    assert book.changed(fit)
    assert sorted(book.rules) == ["counts", "trends"]
    assert code_of(f"delta:{tmp_path / 'nowhere'}")[0] == "E537"


def test_delta_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    code, message = code_of(f"delta:{tmp_path}")
    assert (code, message) == ("E560", "the package `deltalake` is not installed")


class Derby:
    """A database in the memory of the session's JVM, whose names are in capitals."""

    def __init__(self, spark: SparkSession) -> None:
        self.address = f"jdbc:derby:memory:{uuid4().hex}"
        drivers: Any = spark._jvm.java.sql.DriverManager  # type: ignore[union-attr]  # no Connect
        self._connection = drivers.getConnection(f"{self.address};create=true")

    def put(self, statement: str) -> None:
        """Run a statement."""
        self._connection.createStatement().execute(statement)

    def close(self) -> None:
        """Close the connection; the database goes with the JVM."""
        self._connection.close()


@pytest.fixture
def derby(spark: SparkSession) -> Iterator[Derby]:
    """Start a database with a table of rules."""
    database = Derby(spark)
    database.put("CREATE TABLE rules (name varchar(99), query varchar(999), enabled boolean)")
    yield database
    database.close()


@pytest.mark.spark
@pytest.mark.timeout(500)
def test_rules_over_jdbc_change_between_and_during_starts(
    spark: SparkSession, derby: Derby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = two_files(tmp_path / "events")
    derby.put(counting("counts", COUNTS))
    table = table_at(f"{derby.address}#RULES")
    assert (table.by_spark, table.look_s) == (True, rule_tables.JDBC_LOOK_S)
    options, complaints = options_of(tmp_path), list[str]()
    stream_rules_in(spark, rulebook(table, complaints), options, print)
    derby.put(counting("trends", TRENDS))
    derby.put(counting("wrong", "RETURN"))
    write(source, 3, [6, 20])
    book = rulebook(table, complaints)
    stream_rules_in(spark, book, options, print)
    found = [
        (row["rule"], json.loads(row["values"])["count"])
        for row in alerts(spark, tmp_path / "rows")
    ]
    assert found == [("counts", 2), ("counts", 3), ("trends", 5)]
    assert "the rule `wrong` is refused" in complaints[0]
    derby.put("DELETE FROM rules WHERE name = 'counts'")
    assert book.changed(fit)
    assert list(book.rules) == ["trends"]
    missing = table_at(f"{derby.address}#NOTHING")
    with pytest.raises(DataError, match=r"E537.*could not read the rules of the table `NOTHING`"):
        missing.read()


def test_looks_by_spark_are_less_frequent() -> None:
    looks: list[int] = []
    now = [100.0]

    def stamp() -> int:
        looks.append(1)
        return len(looks)

    table = table_at("jdbc:derby:memory:none#RULES")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cepheid.interfaces.stream_rules.time.monotonic", lambda: now[0])
        ready = ready_rules(Path("examples/rules"), EventColumns())
        book = Rulebook(Source(lambda: ready, stamp, table.look_s), print)
        for seconds in (1, 4, 6, 9, 12):
            now[0] = 100.0 + seconds
            book.changed(fit)
    assert len(looks) == 3
