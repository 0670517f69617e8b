// The page: its parts, and what its buttons do.

import { choose } from "./about";
import { get, post } from "./api";
import type { Session } from "./api";
import { drawChart } from "./chart";
import { startChecking } from "./checking";
import { button, byId, h, put } from "./dom";
import { focusEditor, makeEditor, write } from "./editor";
import { past } from "./history";
import { startLive } from "./live";
import { menu } from "./menus";
import { startPlan } from "./plan";
import { startProblems } from "./problems";
import { cancelQuery, runQuery } from "./running";
import { asCommand, asPython, asSql, link, linked } from "./sharing";
import { on, set, state } from "./state";
import { addTab, show, showing } from "./tabs";
import { drawTable } from "./table";
import { nextTheme, startTheme, theme } from "./theme";
import { drawTimeline } from "./timeline";
import { startWhy } from "./why";

async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    put(byId("status"), `${what} is in the clipboard.`);
  } catch {
    put(byId("status"), h("pre", {}, text));
  }
}

async function format(): Promise<void> {
  const told = await post<{ text: string | null }>("format", { text: state.text });
  if (told.text !== null) write(`${told.text}\n`);
}

async function save(): Promise<void> {
  const name = prompt("The name of the query");
  if (!name) return;
  try {
    await post("save", { text: state.text, name });
    put(byId("status"), `Saved as ${name}.`);
  } catch (error) {
    put(byId("status"), (error as Error).message);
  }
}

function exported(kind: string): () => void {
  return () => {
    if (state.run?.status === "done") location.assign(`/api/runs/${state.run.id}/export?format=${kind}`);
    else put(byId("status"), "Run the query first.");
  };
}

async function run(): Promise<void> {
  const done = await runQuery();
  if (done?.status !== "done") return;
  const kept = ["table", "chart", "timeline"].includes(showing()) ? showing() : state.plan?.lists_matches ? "timeline" : "table";
  show(kept);
}

function actions(): void {
  const look = button(`Theme: ${theme()}`, () => { look.textContent = `Theme: ${nextTheme()}`; }, { class: "quiet" });
  put(byId("actions"),
    button("Run", run, { id: "run", class: "primary", title: "Ctrl+Enter" }),
    button("Cancel", cancelQuery, { id: "cancel", disabled: true }),
    menu("Export", () => [
      { label: "Rows as CSV", act: exported("csv") }, { label: "Rows as Parquet", act: exported("parquet") },
    ]),
    menu("Copy", () => [
      { label: "Link", detail: "query and data set, no token", act: () => copy(link(), "The link") },
      { label: "Python", act: () => copy(asPython(), "The Python") },
      { label: "SQL", act: () => copy(asSql(), "The text") },
      { label: "Command line", act: () => copy(asCommand(), "The command") },
    ]),
    look);
  put(byId("tools"),
    menu("Examples", () => [...state.session.queries, ...(state.about?.examples ?? [])]
      .map((one) => ({ label: one.name, detail: one.text.split("\n")[0], act: () => write(one.text) }))),
    menu("History", () => past().slice(0, 15).map((one) => ({
      label: one.text.split("\n").slice(0, 2).join(" ").slice(0, 70), detail: `${one.data}, ${new Date(one.when).toLocaleString()}`,
      act: () => { if (one.data in names()) void choose(one.data); write(one.text); },
    }))),
    button("Format", format, { title: "Shift+Alt+F" }),
    state.session.write ? button("Save", save) : null);
}

function names(): Record<string, true> {
  return Object.fromEntries(state.session.sets.map((one) => [one.name, true]));
}

function views(): void {
  const plan = addTab("plan", "Plan");
  const table = addTab("table", "Table", () => drawTable(table));
  const chart = addTab("chart", "Chart", () => drawChart(chart));
  const timeline = addTab("timeline", "Timeline", () => drawTimeline(timeline));
  on("plan", () => { if (state.plan && showing() === "timeline") void drawTimeline(timeline); });
  const why = addTab("why", "Why not");
  const live = addTab("live", "Live");
  startPlan(plan);
  startWhy(why);
  startLive(live);
  put(table, h("p", { class: "empty" }, "Run the query, and its rows appear here."));
  put(chart, h("p", { class: "empty" }, "Run the query, and its numbers appear here as lines or bars."));
  show("plan");
}

async function start(): Promise<void> {
  startTheme();
  set("session", await get<Session>("session"));
  const given = linked();
  const sets = state.session.sets.map((one) => one.name);
  put(byId("data"), ...sets.map((name) => h("option", { value: name }, name)));
  byId("data").addEventListener("change", (event) => choose((event.target as HTMLSelectElement).value));
  actions();
  views();
  startProblems();
  startChecking();
  makeEditor(given?.text ?? "", run, format);
  let first = given?.text === undefined;
  on("about", () => {
    if (first && !state.text) write(state.about?.examples[1]?.text ?? state.about?.examples[0]?.text ?? "");
    first = false;
  });
  set("text", given?.text ?? "");
  const wanted = given?.data && sets.includes(given.data) ? given.data : sets[0];
  if (wanted) await choose(wanted);
  focusEditor();
}

void start();
