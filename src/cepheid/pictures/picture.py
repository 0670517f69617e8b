"""A picture: a Vega-Lite specification that notebooks show and that can be saved."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from cepheid.options import refuse
from cepheid.pictures.axes import Spec
from cepheid.pictures.drawn import ENDINGS, can_draw, drawn, need_drawing

MIME = "application/vnd.vegalite.v6+json"


class Picture:
    """A picture of a result; Jupyter, marimo and VS Code show it.

    Attributes
    ----------
    spec
        The Vega-Lite specification.
    note
        What the picture leaves out; empty if it has all.
    """

    def __init__(self, what: str, spec: Spec, note: str = "") -> None:
        self._what = what
        self.spec = spec
        self.note = note

    def __repr__(self) -> str:
        return f"Picture  {self._what}{f', {self.note}' if self.note else ''}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """Offer the specification, and a drawing for notebooks that cannot show it."""
        del include, exclude
        bundle: dict[str, Any] = {MIME: self.spec, "text/plain": repr(self)}
        if can_draw():
            bundle["image/svg+xml"] = drawn(self.spec, ".svg").decode()
        return bundle

    def save(self, path: str | Path) -> None:
        """Write the picture to a file that ends in .png, .svg or .html.

        Raises
        ------
        OptionError
            E590 if the name has another end.
        DataError
            E581 if vl-convert is not installed.
        """
        ending = Path(path).suffix.lower()
        if ending not in ENDINGS:
            refuse("E590", f"a picture ends in {', '.join(ENDINGS)}, not in `{ending}`")
        need_drawing("a picture in a file")
        Path(path).write_bytes(drawn(self.spec, ending))

    def altair(self) -> Any:
        """Convert it to a chart of Altair, to change it."""
        altair: Any = importlib.import_module("altair")
        return altair.Chart.from_dict(self.spec)
