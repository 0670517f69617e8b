"""Every way to run a query gives the same rows, or the same refusal."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.agreement.known import is_known
from tests.agreement.running import disagreements
from tests.agreement.values import (
    Trial,
    pattern_trials,
    row_pattern_trials,
    select_trials,
    situation_trials,
)

pytestmark = pytest.mark.timeout(3600)

KINDS: dict[str, st.SearchStrategy[Trial]] = {
    "patterns": pattern_trials(),
    "situations": situation_trials(),
    "SELECT": select_trials(),
    "row patterns": row_pattern_trials(),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_ways_in_process_agree(kind: str, data: st.DataObject) -> None:
    trial = data.draw(KINDS[kind])
    assume(not is_known(trial))
    assert not (found := disagreements(trial)), "\n\n".join(map(str, found[:2]))
