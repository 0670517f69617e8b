"""Times of results as people read them; `pictures` has the code, since notebooks need it too."""

from __future__ import annotations

from cepheid.pictures.shown_times import ShownTimes

__all__ = ["ShownTimes"]
