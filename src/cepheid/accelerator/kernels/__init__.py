"""What runs on the device; every module here loads ``numba.cuda``."""

from __future__ import annotations
