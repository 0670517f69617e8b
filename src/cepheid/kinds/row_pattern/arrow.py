"""Arrow's columns without their types.

What a column holds is known when a query runs, and the stubs of pyarrow want to know it before:
they would need a cast at every call. So the modules that compute with columns take pyarrow from
here, and ``Value`` is an Arrow array, or an Arrow scalar that stands for a column of one value.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as _arrow  # noqa: ICN001  # `pa` is what the others take
import pyarrow.compute as _compute

pa: Any = _arrow
pc: Any = _compute

Value: TypeAlias = Any
