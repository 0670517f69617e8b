"""`cepheid lsp`, asked by a client of the protocol over standard input and output."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp
from pyarrow import parquet
from pygls.lsp.client import LanguageClient
from tests.interfaces.program import PROGRAM

from cepheid.interfaces.editor.positions import Positions
from cepheid.interfaces.extras import need_library

EVENTS = pa.table(
    {
        "ts": pa.array([1, 2, 3], pa.timestamp("us")),
        "type": ["Stock", "Stock", "Halt"],
        "price": [1.0, 2.0, None],
        "company": ["acme", "it's", "acme"],
    }
)
Talk = Callable[["Editor"], Awaitable[None]]


class Editor:
    """A client with one document."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._published: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.uri = (folder / "query.cq").as_uri()
        self._version = 0

        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self._published.put_nowait(params)

        client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(publish)

    async def start(self, settings: object = None) -> lsp.InitializeResult:
        await self._client.start_io(str(PROGRAM), "lsp")
        result = await self._client.initialize_async(
            lsp.InitializeParams(
                capabilities=lsp.ClientCapabilities(),
                workspace_folders=[lsp.WorkspaceFolder(self._folder.as_uri(), "w")],
                initialization_options=settings,
            )
        )
        self._client.initialized(lsp.InitializedParams())
        return result

    async def open(self, text: str) -> list[lsp.Diagnostic]:
        item = lsp.TextDocumentItem(self.uri, "cepheid", self._version, text)
        self._client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.published()

    async def type(self, text: str) -> list[lsp.Diagnostic]:
        self._version += 1
        versioned = lsp.VersionedTextDocumentIdentifier(self._version, self.uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        params = lsp.DidChangeTextDocumentParams(versioned, [change])
        self._client.text_document_did_change(params)
        return await self.published()

    async def published(self) -> list[lsp.Diagnostic]:
        params = await asyncio.wait_for(self._published.get(), 60)
        assert params.uri == self.uri
        return list(params.diagnostics)

    def identifier(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    async def complete(self, line: int, character: int) -> list[lsp.CompletionItem]:
        at = lsp.CompletionParams(self.identifier(), lsp.Position(line, character))
        found = await self._client.text_document_completion_async(at)
        assert isinstance(found, lsp.CompletionList)
        return list(found.items)

    async def hover(self, line: int, character: int) -> str:
        at = lsp.HoverParams(self.identifier(), lsp.Position(line, character))
        found = await self._client.text_document_hover_async(at)
        assert found is not None
        assert isinstance(found.contents, lsp.MarkupContent)
        return found.contents.value

    async def fixes(self, found: lsp.Diagnostic) -> list[lsp.CodeAction]:
        context = lsp.CodeActionContext([found])
        params = lsp.CodeActionParams(self.identifier(), found.range, context)
        actions = await self._client.text_document_code_action_async(params)
        return [one for one in actions or [] if isinstance(one, lsp.CodeAction)]

    async def format(self) -> list[lsp.TextEdit]:
        options = lsp.FormattingOptions(tab_size=4, insert_spaces=True)
        params = lsp.DocumentFormattingParams(self.identifier(), options)
        return list(await self._client.text_document_formatting_async(params) or [])

    async def outline(self) -> list[str]:
        params = lsp.DocumentSymbolParams(self.identifier())
        return [
            one.name for one in await self._client.text_document_document_symbol_async(params) or []
        ]

    def configure(self, settings: object) -> None:
        params = lsp.DidChangeConfigurationParams(settings)
        self._client.workspace_did_change_configuration(params)

    async def close(self) -> None:
        closed = lsp.DidCloseTextDocumentParams(self.identifier())
        self._client.text_document_did_close(closed)
        assert await self.published() == []


def talk(folder: Path, talk_: Talk, settings: object = None) -> None:
    """Start a server, talk to it, and end it."""

    async def whole() -> None:
        client = LanguageClient("test", "1")
        editor = Editor(client, folder)
        try:
            started = await editor.start(settings)
            assert started.server_info is not None
            assert started.server_info.name == "cepheid"
            await talk_(editor)
            await client.shutdown_async(None)
        finally:
            client.exit(None)
            await client.stop()  # type: ignore[no-untyped-call]  # pygls has no types there

    asyncio.run(whole())


def framed(method: str, number: int | None = None, **params: object) -> bytes:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    body = json.dumps(message if number is None else {**message, "id": number}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_a_late_question_and_an_orderly_end() -> None:
    asked = {
        "textDocument": {"uri": "file:///not/open.cq"},
        "position": {"line": 5, "character": 2},
    }
    talk_ = [
        framed("initialize", 1, processId=None, rootUri=None, capabilities={}),
        framed("initialized"),
        framed("textDocument/hover", 2, **asked),
        framed("shutdown", 3),
        framed("exit"),
    ]
    done = subprocess.run(
        [PROGRAM, "lsp"], input=b"".join(talk_), capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"error"' not in done.stdout
    assert b'"id": 2, "jsonrpc": "2.0", "result": null' in done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "open"
    inside.mkdir()
    parquet.write_table(EVENTS, inside / "ticks.parquet")
    parquet.write_table(EVENTS, tmp_path / "outside.parquet")
    (inside / "link.parquet").symlink_to(tmp_path / "outside.parquet")
    return inside


def test_a_mistake_is_shown_explained_and_fixed(folder: Path) -> None:
    text = "-- schema: ticks.parquet\nRETURN COUNT(*)\nPATTERN Stock S+\nWHERE S.prise > 5"

    async def talk_(editor: Editor) -> None:
        (found,) = await editor.open(text)
        assert (found.code, found.range.start) == ("E201", lsp.Position(3, 8))
        assert "did you mean `price`?" in found.message
        (fix,) = await editor.fixes(found)
        assert (fix.title, fix.is_preferred) == ("replace `prise` by `price`", True)
        assert fix.edit is not None
        assert fix.edit.changes is not None
        (edit,) = fix.edit.changes[editor.uri]
        assert (edit.range, edit.new_text) == (found.range, "price")
        assert await editor.type(text.replace("prise", "price")) == []
        assert await editor.hover(2, 2) == (
            "PATTERN: What to look for: event types in sequence, with repetition and negation. (§2)"
        )
        assert "of kind double" in await editor.hover(3, 9)
        assert await editor.outline() == ["RETURN", "PATTERN", "S", "WHERE"]
        await editor.close()

    talk(folder, talk_)


def test_completion_knows_columns_types_and_values(folder: Path) -> None:
    async def talk_(editor: Editor) -> None:
        await editor.open("PATTERN \nWHERE S.company = ")
        assert [one.label for one in await editor.complete(0, 8)][:2] == ["Stock", "Halt"]
        values = await editor.complete(1, 18)
        assert [one.label for one in values][:2] == ["'acme'", "'it''s'"]
        await editor.type("PATTERN Stock S WHERE S.pr")
        (price,) = await editor.complete(0, 26)
        assert isinstance(price.text_edit, lsp.TextEdit)
        assert price.text_edit.range == lsp.Range(lsp.Position(0, 24), lsp.Position(0, 26))

    talk(folder, talk_, {"schema": "ticks.parquet"})


def test_layout(folder: Path) -> None:
    async def talk_(editor: Editor) -> None:
        await editor.open("pattern A within 5 s")
        (edit,) = await editor.format()
        assert edit.new_text == "PATTERN A\nWITHIN 5 seconds\n"
        await editor.type(edit.new_text)
        assert await editor.format() == []
        await editor.type("pattern (")
        assert await editor.format() == []

    talk(folder, talk_)


@pytest.mark.parametrize("name", ["../outside.parquet", "link.parquet", "/etc/hostname"])
def test_no_file_outside_is_read(folder: Path, name: str) -> None:
    async def talk_(editor: Editor) -> None:
        (found,) = await editor.open(f"-- schema: {name}\nPATTERN A WHERE A.prise > 5")
        assert found.message == f"`{name}` lies outside of the open folders, so it is not read"
        assert found.range.start == lsp.Position(0, 11)

    talk(folder, talk_)


def test_settings_change_while_a_document_is_open(folder: Path) -> None:
    async def talk_(editor: Editor) -> None:
        assert await editor.open("PATTERN A WHERE A.prise > 5") == []
        editor.configure({"cepheid": {"schema": "ticks.parquet"}})
        (found,) = await editor.published()
        assert found.code == "E201"
        editor.configure({"cepheid": {"schema": "missing.parquet", "time_unit": "weeks"}})
        (found,) = await editor.published()
        assert found.message == "there is no file `missing.parquet`"

    talk(folder, talk_)


@given(text=st.text(alphabet="aé\n\r\U0001f600\u2028", max_size=20), place=st.integers(0, 20))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions(encoding: str, text: str, place: int) -> None:
    place = min(place, len(text))
    positions = Positions(text, encoding)
    line, unit = positions.place(place)
    # Between CR and LF there is no place that an editor could name.
    inside = text[place - 1 : place + 1] == "\r\n" and place > 0
    assert positions.offset(line, unit) == (place - 1 if inside else place)
    before = text[:place].replace("\r\n", "\n").replace("\r", "\n")
    assert line == before.count("\n") - (1 if inside else 0)


def test_a_missing_library(folder: Path) -> None:
    del folder
    with pytest.raises(Exception, match=r"E585.*\n.*pip install 'cepheid\[lsp\]'"):
        need_library("lsp", "no_such_library", "lsp")
