"""Work on a GPU: the linear evaluator and four operators on streams, order kept.

Nothing here loads numba until a device is asked for; ``kernels`` holds what runs on it, in Python,
so that the same code runs in numba's simulator on machines without a GPU.
"""

from __future__ import annotations
