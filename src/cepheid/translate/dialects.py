"""The dialects by name; a new one is a package beside this file, and a line here."""

from __future__ import annotations

from cepheid.translate.eql.dialect import EQL, EQL_PYTHON
from cepheid.translate.esper.dialect import ESPER
from cepheid.translate.flink.dialect import FLINK_SQL
from cepheid.translate.sigma.dialect import SIGMA
from cepheid.translate.translated import Dialect

DIALECTS: dict[str, Dialect] = {one.name: one for one in (EQL, EQL_PYTHON, SIGMA, FLINK_SQL, ESPER)}
