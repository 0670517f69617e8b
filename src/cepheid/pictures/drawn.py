"""Draw a Vega-Lite specification as PNG, SVG or HTML, without a browser and without a network."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import msgspec

from cepheid.errors import DataError, Diagnostic
from cepheid.pictures.axes import Spec

ENDINGS = (".png", ".svg", ".html")


def need_drawing(what: str) -> None:
    """Refuse to draw without vl-convert.

    Raises
    ------
    DataError
        E581 if it is not installed.
    """
    if not can_draw():
        helps = ("install it: `pip install 'cepheid[charts]'`",)
        message = f"{what} needs vl-convert, which is not installed"
        raise DataError([Diagnostic("E581", message, helps=helps)])


def can_draw() -> bool:
    """Check whether vl-convert is installed."""
    return importlib.util.find_spec("vl_convert") is not None


def drawn(spec: Spec, ending: str) -> bytes:
    """Draw a specification in the format of an ending."""
    convert: Any = importlib.import_module("vl_convert")
    if ending == ".png":
        return bytes(convert.vegalite_to_png(spec, scale=2))
    if ending == ".svg":
        return str(convert.vegalite_to_svg(spec)).encode()
    return _page(spec, str(convert.javascript_bundle())).encode()


def _page(spec: Spec, scripts: str) -> str:
    """Build a page with a chart; its scripts are inside, so that it asks no network.

    Values come from data: without `<` none of them can end the block that it stands in.
    """
    data = msgspec.json.encode(spec).decode().replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Chart</title>'
        f"<script>{scripts}</script></head><body>"
        f'<div id="chart"></div><script type="application/json" id="spec">{data}</script>'
        '<script>vegaEmbed("#chart", JSON.parse(document.getElementById("spec").textContent), '
        '{renderer: "svg", actions: {export: true, source: false, compiled: false, editor: false}}'
        ").catch(console.error);</script></body></html>\n"
    )
