// A match, event by event: which were taken, which were skipped, and why.

import { get } from "./api";
import type { MatchEvent, Run } from "./api";
import { button, byId, h, put } from "./dom";
import { state } from "./state";
import { number, shown } from "./text";

let before: Element | null = null;

function row(one: MatchEvent, columns: string[]): HTMLElement {
  return h("tr", { class: one.taken ? "taken" : "skipped" },
    h("td", {}, one.taken ? h("span", { class: "badge" }, one.variable) : h("span", { class: "muted" }, "skipped")),
    ...columns.map((name) => h("td", { class: typeof one.event[name] === "number" ? "number" : "" }, shown(one.event[name]))),
    h("td", { class: "why" }, one.why));
}

/** Close the match that is open. */
export function closeMatch(): void {
  byId("menus").replaceChildren();
  (before as HTMLElement | null)?.focus?.();
}

/** Open a match of the last run. */
export async function openMatch(place: number): Promise<void> {
  const run = state.run;
  if (!run) return;
  before = document.activeElement;
  const body = h("div", { class: "dialog-body" }, h("p", {}, "Reading the events …"));
  const dialog = h("dialog", { class: "match", "aria-label": `Match ${place + 1}`, onclose: closeMatch },
    h("div", { class: "panel-head" }, h("h2", {}, `Match ${number(place + 1)}`), h("span", { class: "grow" }),
      button("Close", () => dialog.close())), body);
  put(byId("menus"), dialog);
  dialog.showModal();
  try {
    const told = await get<Run>(`runs/${run.id}/matches/${place}`);
    if (told.status !== "done") throw new Error(told.answer.message);
    const events = told.answer.events as MatchEvent[];
    const columns = Object.keys(events[0]?.event ?? {});
    const taken = events.filter((one) => one.taken).length;
    const key = Object.entries(told.answer.key as Record<string, unknown>).map(([name, value]) => `${name} ${shown(value)}`).join(", ");
    put(body,
      h("p", {}, `${taken} events taken, ${events.length - taken} skipped between them${key ? `, for ${key}` : ""}` +
        `${told.answer.left_out ? `; ${number(told.answer.left_out)} more are not shown` : ""}.`),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events of the match" },
        h("table", { class: "rows" }, h("caption", { class: "hidden" }, "Events of the match, and why each was taken or skipped"),
          h("thead", {}, h("tr", {}, ...["Variable", ...columns, "Why"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, ...events.map((one) => row(one, columns))))));
  } catch (error) {
    put(body, h("pre", { class: "failure" }, (error as Error).message));
  }
}
