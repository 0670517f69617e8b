"""``cepheid lsp``: answer an editor over standard input and output."""

from __future__ import annotations

from cepheid.interfaces.extras import need_library


def lsp() -> None:
    """Answer an editor that speaks the Language Server Protocol, over standard input and output."""
    need_library("lsp", "pygls", "lsp")
    # The library of an extra.
    from cepheid.interfaces.editor.server import make_server

    make_server().start_io()
