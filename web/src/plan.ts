// The plan: its automata, evaluator, cost and state, and every reason with its place in the query.

import type { Plan, PlanLine } from "./api";
import { drawAutomaton } from "./automaton";
import { button, h, put } from "./dom";
import { mark } from "./editor";
import { on, state } from "./state";

function fact(name: string, value: string): HTMLElement {
  return h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value));
}

function reason(line: PlanLine): HTMLElement {
  if (!line.spans.length) return h("li", {}, line.text.trim());
  return h("li", {}, button(line.text.trim(), () => mark(line.spans), { class: "reason", title: "Show the place in the query" }));
}

function drawn(plan: Plan): HTMLElement[] {
  return [
    h("h3", {}, plan.title),
    h("dl", { class: "facts" }, fact("Evaluator", plan.evaluator), fact("Time per event", plan.time), fact("State", plan.state)),
    ...plan.graphs.map((graph) => h("div", { class: "scroll picture", tabindex: "0", role: "group", "aria-label": "Automaton" },
      drawAutomaton(graph, mark))),
    h("dl", { class: "sections" }, ...plan.sections.flatMap((section) => [
      h("dt", {}, section.name),
      h("dd", {}, h("ul", {}, ...section.lines.map(reason))),
    ])),
  ];
}

/** Show the plan whenever it changes. */
export function startPlan(view: HTMLElement): void {
  const draw = () => {
    const wrong = state.findings.some((one) => one.severity === "error");
    if (!state.plan) {
      put(view, h("p", { class: "empty" }, wrong ? "The plan appears once the query has no mistakes." :
        "Write a query, and its plan appears here."));
      return;
    }
    put(view, wrong ? h("p", { class: "note" }, "This is the plan of the last query without mistakes.") : null, ...drawn(state.plan));
  };
  on("plan", draw);
  on("findings", draw);
  draw();
}
