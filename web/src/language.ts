// Colours for the words of a query: our language, and SQL with row patterns.

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const WORDS = new Set(
  `return pattern where semantics within slide by having limit emit on expiry early ties numbers
  min length after match skip to next last first past row rows from define as at least most
  situations detected select join window asc desc nulls session create stream distinct between
  and or not in is null like case when then else end true false exists match_recognize measures subset
  until without unless one per show empty matches sweep with all any interval`.split(/\s+/),
);
const FUNCTIONS = new Set(
  `count sum avg min max median percentile log2 abs round floor ceil power sqrt if coalesce nullif cast
  try_cast lower upper substring concat length trim prev next first last classifier match_number funnel
  matches exact arrival strict longest shortest`.split(/\s+/),
);
const WITH_BY = new Set(["group", "order", "partition"]);
const PATTERNS = new Set(["seq", "and", "or", "not", "any"]);
const UNITS = /^(?:microseconds?|milliseconds?|seconds?|minutes?|hours?|days?|us|ms|s|min|h|d)$/i;

interface Reading { comment: boolean; number: boolean }

const cepheid = StreamLanguage.define<Reading>({
  name: "cepheid",
  startState: () => ({ comment: false, number: false }),
  token(stream, state) {
    if (state.comment) {
      if (stream.skipTo("*/")) {
        stream.match("*/");
        state.comment = false;
      } else stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("--")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.comment = true;
      return "comment";
    }
    if (stream.match(/^'(?:[^']|'')*'?/)) return "string";
    if (stream.match(/^(?:"[^"]*"?|`[^`]*`?)/)) return "variableName";
    const before = state.number;
    state.number = false;
    if (stream.match(/^\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/)) {
      state.number = true;
      return "number";
    }
    const word = stream.match(/^[A-Za-z_]\w*(?:-till-\w+-\w+)?/) as RegExpMatchArray | null;
    if (word) {
      const lower = word[0].toLowerCase();
      if (before && UNITS.test(lower)) return "unit";
      if (lower.startsWith("skip-till") || lower === "contiguous") return "atom";
      const opens = stream.match(/^\s*\(/, false) !== null;
      if (opens && PATTERNS.has(lower)) return "operatorKeyword";
      if (opens && FUNCTIONS.has(lower)) return "function";
      if (WITH_BY.has(lower) && stream.match(/^[\s-]+by\b/i, false)) return "keyword";
      if (WORDS.has(lower)) return "keyword";
      return stream.match(/^\s*\./, false) ? "className" : "variableName";
    }
    if (stream.match(/^[<>=!]+|^[+\-*/%|?]/)) return "operator";
    stream.next();
    return "punctuation";
  },
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } } },
  tokenTable: { unit: tags.unit, function: tags.function(tags.variableName), operatorKeyword: tags.operatorKeyword },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, class: "tok-keyword" },
  { tag: tags.operatorKeyword, class: "tok-pattern" },
  { tag: tags.function(tags.variableName), class: "tok-function" },
  { tag: tags.string, class: "tok-string" },
  { tag: tags.number, class: "tok-number" },
  { tag: tags.unit, class: "tok-number" },
  { tag: tags.atom, class: "tok-function" },
  { tag: tags.className, class: "tok-variable" },
  { tag: tags.comment, class: "tok-comment" },
]);

export const language = [cepheid, syntaxHighlighting(colours)];
