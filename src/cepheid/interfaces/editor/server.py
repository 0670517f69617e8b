"""A language server: documents and requests in, answers of the language service out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

import cepheid
from cepheid import language_service
from cepheid.errors import Span
from cepheid.interfaces.editor.positions import Positions
from cepheid.interfaces.editor.schemas import Columns, Schemas, named_file
from cepheid.language_service import CompletionKind, Finding, Severity, SymbolKind
from cepheid.options import OptionError

_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFORMATION: lsp.DiagnosticSeverity.Information,
}
_KINDS = {
    CompletionKind.CLAUSE: lsp.CompletionItemKind.Keyword,
    CompletionKind.KEYWORD: lsp.CompletionItemKind.Keyword,
    CompletionKind.FUNCTION: lsp.CompletionItemKind.Function,
    CompletionKind.TYPE: lsp.CompletionItemKind.Class,
    CompletionKind.VARIABLE: lsp.CompletionItemKind.Variable,
    CompletionKind.COLUMN: lsp.CompletionItemKind.Field,
    CompletionKind.VALUE: lsp.CompletionItemKind.Value,
    CompletionKind.UNIT: lsp.CompletionItemKind.Unit,
    CompletionKind.STREAM: lsp.CompletionItemKind.Module,
}
_SYMBOLS = {
    SymbolKind.STREAM: lsp.SymbolKind.Module,
    SymbolKind.CLAUSE: lsp.SymbolKind.Namespace,
    SymbolKind.VARIABLE: lsp.SymbolKind.Variable,
    SymbolKind.SITUATION: lsp.SymbolKind.Event,
    SymbolKind.RESULT: lsp.SymbolKind.Field,
}
OPTIONS = ("time", "type", "time_unit", "time_format")
"""Settings that are options of :func:`cepheid.query`."""


class QueryServer(LanguageServer):
    """The documents of an editor, its settings, and the columns of its files."""

    def __init__(self) -> None:
        super().__init__(
            "cepheid", cepheid.__version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full
        )
        self.schema = ""
        self.options: dict[str, Any] = {}
        self._schemas = Schemas()

    def configure(self, settings: object) -> None:
        """Take the settings of the editor, alone or under ``cepheid``; others are left out."""
        if isinstance(settings, Mapping):
            inner = settings.get("cepheid", settings)
            given = inner if isinstance(inner, Mapping) else {}
            schema = given.get("schema")
            self.schema = schema if isinstance(schema, str) else ""
            self.options = {n: given[n] for n in OPTIONS if isinstance(given.get(n), str)}

    @property
    def folders(self) -> list[Path]:
        """The folders that the editor has open."""
        uris = [folder.uri for folder in self.workspace.folders.values()]
        paths = [to_fs_path(uri) for uri in uris] or [self.workspace.root_path]
        return [Path(path) for path in paths if path]

    def document(self, uri: str) -> Document:
        """Look up a document of the editor; one that it has closed meanwhile is empty."""
        opened = self.workspace.text_documents.get(uri)
        text = "" if opened is None else opened.source
        path = to_fs_path(uri)
        folders = self.folders
        root = folders[0] if folders else None
        named = named_file(text, Path(path) if path else None, self.schema, root)
        columns = self._schemas.columns(named, folders)
        return Document(text, str(self.workspace.position_encoding), columns, self.options)

    def publish(self, uri: str) -> None:
        """Send the findings of a document to the editor."""
        found = self.document(uri)
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=found.diagnostics())
        )


class Document:
    """A text with its columns, and the answers about it."""

    def __init__(self, text: str, encoding: str, columns: Columns, options: dict[str, Any]) -> None:
        self._text = text
        self._positions = Positions(text, encoding)
        self._columns = columns
        self._schema = columns.sampled.schema if columns.sampled else None
        self._values = columns.sampled.values if columns.sampled else None
        self._options = options

    def offset(self, position: lsp.Position) -> int:
        """Convert a position of the editor."""
        return self._positions.offset(position.line, position.character)

    def range(self, span: Span) -> lsp.Range:
        """Convert a span of the text."""
        start, end = self._positions.place(span.start), self._positions.place(span.end)
        return lsp.Range(lsp.Position(*start), lsp.Position(*end))

    def findings(self) -> list[Finding]:
        """List the mistakes and warnings; wrong settings leave their options out."""
        try:
            return language_service.diagnostics(self._text, self._schema, **self._options)
        except OptionError:
            return language_service.diagnostics(self._text, self._schema)

    def diagnostics(self) -> list[lsp.Diagnostic]:
        """List the mistakes and warnings for the editor."""
        found = [
            lsp.Diagnostic(
                self.range(one.span),
                "\n".join([one.message, *(f"help: {help_}" for help_ in one.helps)]),
                severity=_SEVERITIES[one.severity],
                code=one.code,
                source="cepheid",
            )
            for one in self.findings()
        ]
        if self._columns.trouble:
            span = self._columns.span or Span(0, 0)
            warning = lsp.DiagnosticSeverity.Warning
            trouble = lsp.Diagnostic(
                self.range(span), self._columns.trouble, severity=warning, source="cepheid"
            )
            found.append(trouble)
        return found

    def actions(self, uri: str, asked: lsp.Range) -> list[lsp.CodeAction]:
        """List the fixes of the mistakes that touch a range."""
        start, end = self.offset(asked.start), self.offset(asked.end)
        actions = []
        for one, shown in zip(self.findings(), self.diagnostics(), strict=False):
            if one.span.start > end or one.span.end < start:
                continue
            for number, fix in enumerate(one.fixes):
                edits = [lsp.TextEdit(self.range(edit.span), edit.text) for edit in fix.edits]
                actions.append(
                    lsp.CodeAction(
                        fix.title,
                        kind=lsp.CodeActionKind.QuickFix,
                        diagnostics=[shown],
                        is_preferred=number == 0,
                        edit=lsp.WorkspaceEdit(changes={uri: edits}),
                    )
                )
        return actions

    def completions(self, position: lsp.Position) -> lsp.CompletionList:
        """List what may stand at a position, in order."""
        offset = self.offset(position)
        kind = self._options.get("type", "type")
        found = language_service.complete(self._text, offset, self._schema, self._values, type=kind)
        items = [
            lsp.CompletionItem(
                label=one.label,
                kind=_KINDS[one.kind],
                detail=" ".join(part for part in (one.detail, one.section) if part),
                sort_text=f"{number:04}",
                filter_text=self._text[one.span.start : one.span.end] or one.label,
                text_edit=lsp.TextEdit(self.range(one.span), one.insert),
            )
            for number, one in enumerate(found)
        ]
        # The next letter may allow other words, so the editor asks again.
        return lsp.CompletionList(is_incomplete=True, items=items)

    def hover(self, position: lsp.Position) -> lsp.Hover | None:
        """Explain the word at a position, in plain text: names may hold marks of Markdown."""
        found = language_service.hover(self._text, self.offset(position), self._schema)
        if found is None:
            return None
        told = f"{found.title}: {found.text} ({found.section})"
        content = lsp.MarkupContent(lsp.MarkupKind.PlainText, told)
        return lsp.Hover(content, self.range(found.span))

    def layout(self) -> list[lsp.TextEdit] | None:
        """Replace the text by its canonical layout, if it can be read and differs."""
        formatted = language_service.format_text(self._text)
        if formatted is None or f"{formatted}\n" == self._text:
            return None
        return [lsp.TextEdit(self.range(Span(0, len(self._text))), f"{formatted}\n")]

    def symbols(self) -> list[lsp.DocumentSymbol]:
        """Outline the text."""
        return [
            lsp.DocumentSymbol(
                one.name or " ",
                _SYMBOLS[one.kind],
                self.range(one.span),
                self.range(one.span),
                detail=one.detail,
            )
            for one in language_service.symbols(self._text)
        ]


def make_server() -> QueryServer:
    """Make a server with all its answers."""
    server = QueryServer()

    @server.feature(lsp.INITIALIZE)
    def _initialize(params: lsp.InitializeParams) -> None:
        server.configure(params.initialization_options)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def _configure(params: lsp.DidChangeConfigurationParams) -> None:
        server.configure(params.settings)
        for uri in server.workspace.text_documents:
            server.publish(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def _open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def _change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def _close(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[])
        )

    _answer_requests(server)
    return server


def _answer_requests(server: QueryServer) -> None:
    """Add what an editor asks for: completion, hover, layout, fixes and the outline."""
    triggers = lsp.CompletionOptions(trigger_characters=[".", "'", "["])

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, triggers)
    def _complete(params: lsp.CompletionParams) -> lsp.CompletionList:
        return server.document(params.text_document.uri).completions(params.position)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def _hover(params: lsp.HoverParams) -> lsp.Hover | None:
        return server.document(params.text_document.uri).hover(params.position)

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def _format(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        return server.document(params.text_document.uri).layout()

    fixes = lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, fixes)
    def _fix(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        return server.document(uri).actions(uri, params.range)

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def _outline(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        return server.document(params.text_document.uri).symbols()
