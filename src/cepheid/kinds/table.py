"""The table of all kinds of query; a new one is a module here and a line below."""

from __future__ import annotations

from cepheid.jobs.kind import Kind, register
from cepheid.kinds.funnel.kind import FunnelKind
from cepheid.kinds.pipeline.kind import PipelineKind
from cepheid.kinds.row_pattern.kind import RowPatternKind
from cepheid.kinds.selection.kind import SelectKind
from cepheid.kinds.situation.kind import SituationKind
from cepheid.kinds.sweep.kind import SweepKind
from cepheid.kinds.trend.kind import TrendKind

KINDS: tuple[Kind, ...] = (
    TrendKind(),
    FunnelKind(),
    SituationKind(),
    SelectKind(),
    RowPatternKind(),
    PipelineKind(),
    SweepKind(),
)

for _kind in KINDS:
    register(_kind)
