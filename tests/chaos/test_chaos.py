"""Ten kills between Kafka and Kafka; ``make chaos`` runs a thousand, on every route and kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.kinds import KINDS, expected_rows
from tests.chaos.records import BAD, BATCH, GOOD, LATE, draw_records
from tests.chaos.rounds import Round
from tests.chaos.routes import Route
from tests.servers import Broker


def test_the_stream_is_as_chaotic_as_it_should_be() -> None:
    records = draw_records(1, 20_000)
    fates = Counter(one.fate for one in records)
    assert 150 < fates[LATE] < 250
    assert 130 < fates[BAD] < 250
    times = [one.event["ts"] for one in records if one.fate == GOOD]
    latest, behind = times[0], 0
    for time in times:
        behind += time < latest
        latest = max(time, latest)
    assert 0.08 < behind / len(times) < 0.12
    assert [one.number for one in records] != sorted(one.number for one in records)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_rows_to_lose(kind: str) -> None:
    assert expected_rows(kind, draw_records(1, 10 * BATCH)).total() > 20


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_ten_kills_lose_nothing_and_repeat_nothing(broker: Broker, tmp_path: Path) -> None:
    route = Route("chaos", "Kafka to Kafka", tmp_path / "round", broker, None)
    kinds = ["aggregates", "matches"]
    result = Round(2, route, kinds, 7 * BATCH, (1, 5)).run()
    assert not result.wrong
    assert result.late
    assert result.bad
    assert result.drivers + result.workers >= 10
