// Messages below the editor, each with its place, what helps, and fixes to click on.

import { apply, mark } from "./editor";
import { button, byId, h, put } from "./dom";
import { on, state } from "./state";

function draw(): void {
  put(
    byId("problems"),
    ...state.findings.map((one) =>
      h("article", { class: `problem ${one.severity}` },
        h("pre", { tabindex: "0", "aria-label": `${one.severity} ${one.code}` }, one.block),
        h("div", { class: "fixes" },
          ...one.fixes.slice(0, 4).map((fix) => button(`Fix: ${fix.title}`, () => apply(fix), { class: "fix" })),
          button("Show", () => mark([one.span]), { class: "plain", "aria-label": `Show ${one.code} in the query` }),
        ),
      ),
    ),
  );
}

/** Show messages whenever they change. */
export function startProblems(): void {
  on("findings", draw);
}
