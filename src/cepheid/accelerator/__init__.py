"""GPU code: the linear evaluator and four order-preserving operators on streams.

Nothing here imports numba until a device is requested; ``kernels`` holds the device code in Python,
so that the same code runs in numba's simulator on machines without a GPU.
"""

from __future__ import annotations
