// The editor: highlighting, completion, messages below the text, hover, and marks that others set.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration, EditorView, drawSelection, highlightActiveLine, hoverTooltip, keymap, lineNumbers,
} from "@codemirror/view";
import type { DecorationSet } from "@codemirror/view";

import { post } from "./api";
import type { Fix, Finding } from "./api";
import { byId, h } from "./dom";
import { language } from "./language";
import { set, state } from "./state";

const marked = StateEffect.define<[number, number][]>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(value, change) {
    if (change.docChanged) return Decoration.none;
    for (const effect of change.effects) {
      if (effect.is(marked)) {
        const most = change.newDoc.length;
        return Decoration.set(
          effect.value
            .filter(([from, to]) => from < to && to <= most)
            .sort((a, b) => a[0] - b[0])
            .map(([from, to]) => Decoration.mark({ class: "marked" }).range(from, to)),
        );
      }
    }
    return value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

interface Offer { label: string; insert: string; kind: string; detail: string; from: number; to: number }

const KINDS: Record<string, string> = {
  clause: "keyword", keyword: "keyword", function: "function", type: "class", variable: "variable",
  column: "property", value: "text", unit: "constant", stream: "namespace",
};

async function completions(context: CompletionContext): Promise<CompletionResult | null> {
  const before = context.matchBefore(/[\w`'.-]+$/);
  if (!before && !context.explicit) return null;
  const offers = await post<Offer[]>("complete", {
    text: context.state.doc.toString(), data: state.data, offset: context.pos,
  });
  if (!offers.length) return null;
  return {
    from: offers[0].from,
    to: context.pos,
    options: offers.map((offer) => ({
      label: offer.label, apply: offer.insert, type: KINDS[offer.kind], detail: offer.detail,
    })),
    filter: false,
  };
}

const hovering = hoverTooltip(async (view, pos) => {
  const told = await post<{ title: string; text: string; section: string; span: [number, number] } | null>(
    "hover", { text: view.state.doc.toString(), data: state.data, offset: pos },
  );
  if (!told) return null;
  return {
    pos: told.span[0],
    end: told.span[1],
    create: () => ({
      dom: h("div", { class: "hover" }, h("strong", {}, told.title), h("p", {}, told.text),
        told.section ? h("small", {}, `semantics ${told.section}`) : null),
    }),
  };
});

let view: EditorView;

/** Apply the edits of a fix. */
export function apply(fix: Fix): void {
  view.dispatch({ changes: fix.edits.map((edit) => ({ from: edit.from, to: edit.to, insert: edit.text })) });
  view.focus();
}

/** Show findings below the text. */
export function showFindings(findings: Finding[]): void {
  const most = view.state.doc.length;
  view.dispatch(setDiagnostics(view.state, findings.map((one) => ({
    from: Math.min(one.span[0], most),
    to: Math.min(Math.max(one.span[1], one.span[0]), most),
    severity: one.severity === "information" ? "info" as const : one.severity,
    message: `${one.code}: ${one.message}`,
    actions: one.fixes.slice(0, 3).map((fix) => ({ name: fix.title, apply: () => apply(fix) })),
  }))));
}

/** Mark places of the text, and show the first. */
export function mark(spans: [number, number][]): void {
  const effects: StateEffect<unknown>[] = [marked.of(spans)];
  if (spans.length && spans[0][0] <= view.state.doc.length) {
    effects.push(EditorView.scrollIntoView(spans[0][0], { y: "center" }));
  }
  view.dispatch({ effects });
}

/** Put a text in the place of the whole one. */
export function write(text: string): void {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

/** Move the focus to the text. */
export function focusEditor(): void {
  view.focus();
}

/** Make the editor; `run` is called by Ctrl+Enter. */
export function makeEditor(text: string, run: () => void, format: () => void): void {
  const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content ?? "";
  view = new EditorView({
    parent: byId("editor"),
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        keymap.of([
          { key: "Mod-Enter", run: () => (run(), true) },
          { key: "Shift-Alt-f", run: () => (format(), true) },
          ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap,
          ...lintKeymap, ...searchKeymap,
        ]),
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
        autocompletion({ override: [completions], activateOnTypingDelay: 60 }),
        hovering, lintGutter(), marks, language,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "Query text" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) set("text", update.state.doc.toString());
        }),
      ],
    }),
  });
}
