"""Files and event stores on a simulated GPU give what the CPU gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import cepheid
from cepheid.errors import UnsupportedError

pytestmark = pytest.mark.timeout(300)
QUERIES = [
    "RETURN COUNT(*), SUM(A.price) PATTERN SEQ(A, B) WITHIN 20 us SLIDE 10 us",
    "RETURN COUNT(*) PATTERN A S+ WHERE S.price > NEXT(S).price WITHIN 9 us SLIDE 9 us",
    "SELECT COUNT(*), MAX(price) FROM s WHERE price > 2.0 WINDOW 20 us",
]


def events() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "ts": pa.array(np.arange(60), pa.timestamp("us")),
            "type": pa.array(rng.choice(["A", "B"], 60)),
            "price": pa.array(rng.integers(0, 9, 60).astype(np.float64)),
            "unread": pa.array(["x"] * 60),
        }
    )


@pytest.mark.parametrize("text", QUERIES)
def test_files_and_stores_are_read_for_the_device(text: str, tmp_path: Path) -> None:
    table, query = events(), cepheid.query(text)
    expected = query.run(table)
    for part in range(2):
        pq.write_table(table.slice(30 * part, 30), tmp_path / f"{part}.parquet")
    assert query.run(tmp_path, device="gpu").equals(expected)
    pa.csv.write_csv(table, tmp_path / "all.csv")
    assert (
        query.run(str(tmp_path / "all.csv"), device="gpu").to_pydict()
        == query.run(str(tmp_path / "all.csv")).to_pydict()
    )
    store = cepheid.EventStore(tmp_path / "store")
    store.append(table)
    assert query.run(store, device="gpu").equals(expected)


def test_what_stays_on_the_cpu_says_so(tmp_path: Path) -> None:
    pq.write_table(events(), tmp_path / "all.parquet")
    with pytest.raises(UnsupportedError, match="matches of bounded length"):
        cepheid.query("RETURN MATCHES PATTERN SEQ(A+, B)").run(tmp_path, device="gpu")
