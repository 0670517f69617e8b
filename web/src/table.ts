// The rows of a result as a table, a page at a time.

import { get } from "./api";
import type { Rows } from "./api";
import { button, h, put } from "./dom";
import { openMatch } from "./match";
import { state } from "./state";
import { number, shown } from "./text";

const PAGE = 100;

interface Event { variable?: string; [name: string]: unknown }

function cell(value: unknown, name: string, row: number): HTMLElement {
  if (name === "events" && Array.isArray(value)) {
    return h("td", { class: "events" },
      button(`${value.length} event${value.length === 1 ? "" : "s"}`, () => openMatch(row), { class: "plain", title: "Show the events of this match" }),
      h("span", { class: "chain" }, (value as Event[]).slice(0, 6).map((one) => one.variable ?? "").join(" → ")));
  }
  const numeric = typeof value === "number";
  return h("td", { class: numeric ? "number" : "" }, value === null ? h("span", { class: "null" }, "NULL") : shown(value));
}

/** Draw a page of rows. */
export async function drawTable(view: HTMLElement, first = 0): Promise<void> {
  const run = state.run;
  if (!run || run.status !== "done") return;
  const page = await get<Rows>(`runs/${run.id}/rows?offset=${first}&limit=${PAGE}`);
  if (state.run !== run) return;
  const last = first + page.rows.length;
  const told = page.total ? `rows ${number(first + 1)} to ${number(last)} of ${number(page.total)}` : "no rows";
  const head = page.columns.map((column) => h("th", { scope: "col", title: column.type }, column.name));
  const body = page.rows.map((row, n) => h("tr", {}, h("th", { scope: "row", class: "rownumber" }, number(first + n + 1)),
    ...row.map((value, c) => cell(value, page.columns[c].name, first + n))));
  put(view,
    h("div", { class: "pager" }, h("span", {}, told), h("span", { class: "grow" }),
      button("Previous", () => drawTable(view, Math.max(0, first - PAGE)), { disabled: first === 0 }),
      button("Next", () => drawTable(view, last), { disabled: last >= page.total })),
    page.total ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" },
      h("table", { class: "rows" }, h("caption", { class: "hidden" }, `Result, ${told}`),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "#"), ...head)), h("tbody", {}, ...body))) :
      h("p", { class: "empty" }, "The query found no rows. “Why not” says what stopped it."));
}
