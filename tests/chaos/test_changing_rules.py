"""Rules that come and go beside kills lose nothing; ``changing_rules.py`` goes on for long."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.changing_rules import Round


@pytest.mark.spark
@pytest.mark.slow  # Drivers start and are killed; `test_stream_rules.py` stops and starts one.
@pytest.mark.timeout(900)
def test_rules_that_come_and_go_beside_kills_lose_nothing(tmp_path: Path) -> None:
    result = Round(tmp_path / "round", seed=3, seconds=8, kills=1).run()
    assert not result.wrong
    assert result.kills == 1
    assert result.came >= 2
    assert result.rows > 100
    assert result.compacted >= 3
