// Run the query, show its progress, and cancel it.

import { cancel, get, post } from "./api";
import type { Run } from "./api";
import { byId, h, put } from "./dom";
import { remember } from "./history";
import { set, state } from "./state";
import { number, seconds } from "./text";

let current = "";

function tell(...texts: (Node | string)[]): void {
  put(byId("status"), ...texts);
}

function sum(run: Run): string {
  const read = run.answer.events ? `, ${number(run.answer.events)} events` : "";
  const more = run.answer.more ? ` (the first; a run keeps ${number(state.session.limits.rows)})` : "";
  return `${number(run.answer.rows)} rows${more}${read}, ${seconds(run.answer.seconds)}`;
}

function progress(run: Run): void {
  const total = state.about?.events;
  const bar = total ? h("progress", { max: total, value: run.events, "aria-label": "Events read" }) : h("progress", { "aria-label": "Events read" });
  tell(bar, ` ${number(run.events)} events, ${seconds(run.seconds)}`);
}

function buttons(running: boolean): void {
  byId<HTMLButtonElement>("run").disabled = running;
  byId<HTMLButtonElement>("cancel").disabled = !running;
}

/** Run the query over the data set. */
export async function runQuery(): Promise<Run | null> {
  if (current) return null;
  buttons(true);
  tell("Starting …");
  try {
    let run = await post<Run>("runs", { text: state.text, data: state.data });
    current = run.id;
    remember(state.text, state.data);
    while (run.status === "running") {
      run = await get<Run>(`runs/${run.id}?wait=200`);
      if (run.status === "running") progress(run);
    }
    if (run.status === "done") {
      tell(sum(run), ...(run.answer.notices as string[]).map((text) => h("p", { class: "note" }, text)));
    } else tell(h("pre", { class: "failure" }, String(run.answer.message)));
    set("run", run);
    return run;
  } catch (error) {
    tell(h("pre", { class: "failure" }, (error as Error).message));
    return null;
  } finally {
    current = "";
    buttons(false);
  }
}

/** Cancel the run. */
export async function cancelQuery(): Promise<void> {
  if (current) await cancel(current);
}
