// The data set: its columns, and its first events.

import { get } from "./api";
import type { DataSet } from "./api";
import { byId, h, put } from "./dom";
import { set, state } from "./state";
import { number, shown } from "./text";

/** Choose a data set, and read what it has. */
export async function choose(name: string): Promise<void> {
  set("data", name);
  byId<HTMLSelectElement>("data").value = name;
  try {
    const about = await get<DataSet>(`data/${encodeURIComponent(name)}`);
    if (state.data !== name) return;
    set("about", about);
    draw(about);
  } catch (error) {
    put(byId("columns"), h("p", { class: "failure" }, (error as Error).message));
  }
}

function draw(about: DataSet): void {
  const names = about.columns.map((column) => column.name);
  put(byId("columns"),
    h("p", { class: "muted" }, `${about.events === null ? "" : `${number(about.events)} events; `}the first ${about.sample.length}:`),
    h("div", { class: "scroll sample", tabindex: "0", role: "region", "aria-label": "First events" },
      h("table", { class: "rows" },
        h("thead", {}, h("tr", {}, ...about.columns.map((column) => h("th", { scope: "col" }, column.name, h("small", {}, column.type))))),
        h("tbody", {}, ...about.sample.map((row) => h("tr", {}, ...names.map((name) =>
          h("td", { class: typeof row[name] === "number" ? "number" : "" }, shown(row[name])))))))));
}
