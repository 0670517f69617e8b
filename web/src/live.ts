// Live: feed events of a replay, a folder or a topic to the query or the rules, and watch rows as they leave.

import { cancel, get, post } from "./api";
import type { LiveFigures, Run } from "./api";
import { button, h, put } from "./dom";
import { on, state } from "./state";
import { bytes, moment, number, short, shown } from "./text";

const ROWS_SHOWN = 100;
const SPEEDS: [string, string][] = [["1", "real time"], ["10", "10 ×"], ["60", "60 ×"], ["600", "600 ×"], ["3600", "3,600 ×"],
  ["86400", "86,400 ×"], ["0", "as fast as possible"]];

interface Message { live: LiveFigures; batch: { query: string; row: Record<string, unknown> }[]; number: number }

function lag(live: LiveFigures): string {
  return live.lag_records === null ? `${(live.lag_s ?? 0).toFixed(1)} s` : `${number(live.lag_records)} records`;
}

/** The view of live queries. */
class Live {
  private run: Run | null = null;
  private source: EventSource | null = null;
  private stopped = "";
  private rates: number[] = [];
  private figures = h("dl", { class: "facts figures" });
  private spark = h("div", { class: "spark", "aria-hidden": "true" });
  private head = h("thead");
  private body = h("tbody");
  private rules = h("div");
  private line = h("p", { class: "muted", role: "status" }, "");
  private start = button("Start", () => this.begin(""), { class: "primary" });
  private stop = button("Stop", () => this.halt(), { disabled: true });
  private resume = button("Go on", () => this.begin(this.stopped), { disabled: true });
  private speed = h("select", {}, ...SPEEDS.map(([value, name]) => h("option", { value, selected: value === "3600" }, name)));
  private watermark = h("input", { value: "1 second", size: 10 });
  private what = h("select", {}, h("option", { value: "" }, "this query"));
  private follow = h("input", { type: "checkbox" });
  private from = h("select", {}, h("option", { value: "earliest" }, "the first record"), h("option", { value: "latest" }, "new records"));
  private ofReplays: HTMLElement[] = [];
  private ofTopics: HTMLElement[] = [];

  constructor(view: HTMLElement) {
    const rules = state.session.queries.length;
    if (rules) this.what.append(h("option", { value: "rules" }, `all ${rules} rules`));
    this.ofReplays = [
      h("label", { class: "field" }, h("span", {}, "Speed"), this.speed),
      h("label", { class: "field check" }, this.follow, h("span", {}, "follow the folder"))];
    this.ofTopics = [h("label", { class: "field" }, h("span", {}, "From"), this.from)];
    put(view,
      h("div", { class: "pager" },
        h("label", { class: "field" }, h("span", {}, "Run"), this.what),
        this.ofReplays[0], ...this.ofTopics,
        h("label", { class: "field" }, h("span", {}, "Lateness"), this.watermark),
        this.ofReplays[1],
        h("span", { class: "grow" }), this.start, this.stop, this.resume),
      this.line, this.figures, this.spark, this.rules,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows as they leave" },
        h("table", { class: "rows live-rows" }, h("caption", { class: "hidden" }, "Rows as they leave, the newest first"), this.head, this.body)));
    this.show(null);
    on("data", () => this.offer());
    this.offer();
  }

  /** Offer what the chosen data set can do. */
  private offer(): void {
    const topic = this.isTopic();
    for (const one of this.ofReplays) one.hidden = topic;
    for (const one of this.ofTopics) one.hidden = !topic;
  }

  private isTopic(): boolean {
    return state.session.sets.some((one) => one.name === state.data && one.kind === "topic");
  }

  private async begin(from: string): Promise<void> {
    this.body.replaceChildren();
    this.head.replaceChildren();
    this.rates = [];
    try {
      this.run = await post<Run>("live", {
        text: state.text, data: state.data, rules: this.what.value === "rules", speed: Number(this.speed.value),
        watermark: this.watermark.value, follow: this.follow.checked && !this.isTopic(), start: this.from.value, state: from,
      });
    } catch (error) {
      put(this.line, (error as Error).message);
      return;
    }
    put(this.line, from ? "Going on from the saved state …" : "Starting …");
    this.buttons(true);
    this.source = new EventSource(`/api/live/${this.run.id}/events`);
    this.source.onmessage = (event) => this.hear(JSON.parse(event.data) as Message);
    this.source.addEventListener("end", (event) => this.end(JSON.parse((event as MessageEvent).data) as Run));
  }

  private async halt(): Promise<void> {
    if (!this.run) return;
    put(this.line, "Writing the state …");
    await post<Run>(`live/${this.run.id}/stop`, {}).catch(() => cancel(this.run!.id));
  }

  private buttons(running: boolean): void {
    this.start.disabled = running;
    this.stop.disabled = !running;
    this.resume.disabled = running || !this.stopped;
  }

  private hear(message: Message): void {
    put(this.line, "Running.");
    this.show(message.live);
    const several = Object.keys(message.live.rules).length > 1;
    const rows = message.batch.slice(-ROWS_SHOWN).reverse();
    if (!several && rows.length && !this.head.children.length) {
      put(this.head, h("tr", {}, ...Object.keys(rows[0].row).map((name) => h("th", { scope: "col" }, name))));
    }
    this.body.prepend(...rows.map((one) => h("tr", {},
      several ? h("td", {}, h("span", { class: "badge" }, one.query)) : null,
      ...Object.entries(one.row).map(([name, value]) => h("td", { class: typeof value === "number" ? "number" : "" },
        several ? h("span", { class: "cell-name" }, `${name} `) : null, Array.isArray(value) ? `${value.length} events` : shown(value))))));
    while (this.body.children.length > ROWS_SHOWN) this.body.lastElementChild!.remove();
    if (several) {
      put(this.rules, h("ul", { class: "legend" }, ...Object.entries(message.live.rules).map(([name, count]) =>
        h("li", {}, h("span", { class: "badge" }, name), ` ${number(count)} rows`))));
    }
  }

  private show(live: LiveFigures | null): void {
    const time = (at: number | null | undefined) => (at === null || at === undefined ? "–" : moment(at, 1e6));
    const facts: [string, string][] = [
      ["Events", live ? number(live.events) : "–"], ["Events/s", live ? short(Math.round(live.rate)) : "–"],
      ["Rows", live ? number(live.rows) : "–"], ["Latest event", time(live?.latest)], ["Watermark", time(live?.watermark)],
      ["Lag", live ? lag(live) : "–"], ["Waiting", live ? number(live.waiting) : "–"],
      ["State", live ? bytes(live.state) : "–"], ["Late", live ? number(live.late) : "–"], ["Bad", live ? number(live.bad) : "–"],
    ];
    put(this.figures, ...facts.map(([name, value]) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value))));
    if (!live) return;
    this.rates = [...this.rates, live.rate].slice(-120);
    const most = Math.max(1, ...this.rates);
    put(this.spark, ...this.rates.map((rate) => {
      const bar = h("i");
      bar.style.height = `${Math.max(2, (100 * rate) / most)}%`;
      return bar;
    }));
  }

  private async end(run: Run): Promise<void> {
    this.source?.close();
    const told = run.status === "running" ? await get<Run>(`runs/${run.id}`) : run;
    this.stopped = told.status === "done" && !told.answer.ended ? told.id : "";
    const texts: Record<string, string> = {
      done: told.answer.ended ? "All events have come; the rows of open windows are here, too." : "Stopped; the state is saved.",
      cancelled: "Cancelled.",
    };
    put(this.line, texts[told.status] ?? told.answer.message ?? "The replay failed.");
    if (told.answer.broken) put(this.line, "Stopped; the state is saved, and Go on tries again.", h("pre", { class: "failure" }, String(told.answer.broken)));
    if (told.status === "failed") put(this.line, h("pre", { class: "failure" }, String(told.answer.message)));
    this.buttons(false);
  }
}

/** Make the view. */
export function startLive(view: HTMLElement): void {
  new Live(view);
}
