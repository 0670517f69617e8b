// Why not: how far partial matches came, what stopped them, and what would be found without it.

import { cancel, get, post } from "./api";
import type { Run } from "./api";
import { button, h, put } from "./dom";
import { state } from "./state";
import { number } from "./text";

interface Step { text: string; count: number }
interface Condition { variable: string; text: string; events: number; satisfied: number; alone: number }
interface Relaxation { text: string; count: number | null; unit: string }

/** Draw numbers as bars, the first the longest. */
export function funnelBars(steps: Step[], unit: string): HTMLElement {
  const most = Math.max(1, ...steps.map((step) => step.count));
  return h("ol", { class: "funnel" }, ...steps.map((step, n) => {
    const share = n && steps[n - 1].count ? ` (${Math.round((100 * step.count) / steps[n - 1].count)} % of the step before)` : "";
    const bar = h("span", { class: "amount" });
    bar.style.width = `${Math.max(step.count ? 0.5 : 0, (100 * step.count) / most)}%`;
    return h("li", {}, h("div", { class: "funnel-text" }, h("span", {}, step.text), h("span", {}, `${number(step.count)} ${unit}${share}`)),
      h("div", { class: "track" }, bar));
  }));
}

function conditions(all: Condition[]): HTMLElement | null {
  if (!all.length) return null;
  const row = (one: Condition) => h("tr", {}, h("td", {}, one.text), h("td", { class: "number" }, number(one.events)),
    h("td", { class: "number" }, number(one.satisfied)), h("td", { class: "number" }, number(one.alone)));
  return h("div", {}, h("h3", {}, "Conditions on events"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conditions" },
    h("table", { class: "rows" }, h("thead", {}, h("tr", {}, ...["condition", "events", "satisfy it", "stopped by it alone"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...all.map(row)))));
}

function relaxations(all: Relaxation[]): HTMLElement | null {
  if (!all.length) return null;
  return h("div", {}, h("h3", {}, "Without one condition"), h("ul", { class: "relaxed" }, ...all.map((one) =>
    h("li", {}, h("code", {}, one.text), ` ${one.count === null ? "not counted" : `${number(one.count)} ${one.unit}`}`))));
}

function draw(view: HTMLElement, run: Run): void {
  if (run.status !== "done") {
    put(view, h("pre", { class: "failure" }, run.answer.message ?? "The run failed."));
    return;
  }
  const why = run.answer.why;
  put(view,
    h("div", { class: "sentences" }, ...why.sentences.map((text: string) => h("p", {}, text))),
    ...why.notices.map((text: string) => h("p", { class: "note" }, text)),
    why.steps.length ? h("h3", {}, `Steps, by ${why.unit}`) : null,
    why.steps.length ? funnelBars(why.steps, why.unit) : null,
    conditions(why.conditions), relaxations(why.relaxations));
}

/** Make the view, with a button that asks. */
export function startWhy(view: HTMLElement): () => void {
  const ask = async () => {
    put(view, h("p", { class: "empty" }, "Counting …"));
    try {
      let run = await post<Run>("runs", { text: state.text, data: state.data, why: true });
      put(view, h("p", { class: "empty" }, "Counting … ", button("Cancel", () => cancel(run.id))));
      while (run.status === "running") run = await get<Run>(`runs/${run.id}?wait=2000`);
      draw(view, run);
    } catch (error) {
      put(view, h("pre", { class: "failure" }, (error as Error).message));
    }
  };
  put(view, h("p", { class: "empty" }, "Why are there no, or few, rows? It counts how far partial matches came. ", button("Ask", ask, { class: "primary" })));
  return ask;
}
