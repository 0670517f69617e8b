// The timeline: lanes by key, events as marks, matches and situations as spans above them.

import { post } from "./api";
import type { Run, Span, Timeline } from "./api";
import { themed } from "./colours";
import { button, download, h, put, s } from "./dom";
import { openMatch } from "./match";
import { menu } from "./menus";
import { state } from "./state";
import { moment, number, short } from "./text";
import { TileCache } from "./tilecache";

const LANE = 34;
const LEFT = 110;
const AXIS = 26;
const LEVEL_MAX = 40;

interface Told extends Run { timeline: Timeline; spans: { spans: Span[]; total: number; kind: string } }

/** One timeline on a canvas: it draws a frame whenever the view or a tile changes. */
class Drawing {
  readonly canvas = h("canvas", { class: "timeline", tabindex: "0", role: "img" });
  frames = 0;
  private pen = this.canvas.getContext("2d")!;
  private from: number;
  private to: number;
  private cache: TileCache;
  private waiting = false;
  private lanes: Map<string, number>;
  private chosen = -1;
  private width = 0;

  constructor(id: string, private about: Timeline, private spans: Span[], private told: (text: string) => void) {
    const room = Math.max(1, (about.end - about.start) * 0.02);
    this.from = about.start - room;
    this.to = about.end + room;
    this.lanes = new Map(about.lanes.map((name, place) => [name, place]));
    this.cache = new TileCache(id, about, LANE, () => this.later());
    this.canvas.setAttribute("aria-label",
      `Timeline of ${number(about.events)} events in ${about.lanes.length} lanes with ${number(spans.length)} spans. ` +
      "Arrows move, plus and minus zoom, N and P go through the spans, Enter opens one.");
    this.listen();
    new ResizeObserver(() => this.later()).observe(this.canvas);
  }

  /** Draw a frame soon. */
  later(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  /** Show a stretch of time. */
  view(from: number, to: number): void {
    const most = (this.about.end - this.about.start) * 1.2 + 2;
    const span = Math.min(Math.max(to - from, 20), most);
    const middle = Math.min(Math.max((from + to) / 2, this.about.start), this.about.end);
    this.from = middle - span / 2;
    this.to = middle + span / 2;
    this.later();
  }

  zoom(factor: number, at = (this.from + this.to) / 2): void {
    this.view(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(part: number): void {
    const by = (this.to - this.from) * part;
    this.view(this.from + by, this.to + by);
  }

  all(): void {
    this.view(this.about.start - 1, this.about.end + 1);
  }

  /** Choose a span, and show it in the middle. */
  choose(place: number): void {
    if (!this.spans.length) return;
    this.chosen = (place + this.spans.length) % this.spans.length;
    const [begin, end, lane, name] = this.spans[this.chosen];
    const room = Math.max(end - begin, (this.about.end - this.about.start) / 20_000, 20) * 2.5;
    this.view((begin + end) / 2 - room, (begin + end) / 2 + room);
    this.told(`${name} in ${lane}, ${this.time(begin)} to ${this.time(end)}`);
  }

  open(): void {
    if (this.chosen >= 0 && this.spans[this.chosen][5].length) void openMatch(this.spans[this.chosen][4]);
  }

  next(by: number): void {
    this.choose(this.chosen < 0 && by < 0 ? 0 : this.chosen + by);
  }

  private time(at: number, step = 1): string {
    return this.about.dates ? moment(at, step) : number(Math.round(at));
  }

  private x(at: number): number {
    return LEFT + ((at - this.from) / (this.to - this.from)) * (this.width - LEFT);
  }

  private at(x: number): number {
    return this.from + ((x - LEFT) / (this.width - LEFT)) * (this.to - this.from);
  }

  private draw(): void {
    const ratio = window.devicePixelRatio || 1;
    const box = this.canvas.getBoundingClientRect();
    const width = Math.max(200, box.width), height = AXIS + this.about.lanes.length * LANE + 6;
    if (!box.width) return;
    this.width = width;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.pen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = themed("surface");
    pen.fillRect(0, 0, width, height);
    this.drawLanes(width);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height);
    pen.clip();
    this.drawTiles();
    this.drawSpans();
    pen.restore();
    this.drawAxis(width);
    this.frames += 1;
    this.canvas.dataset.frames = String(this.frames);
  }

  private drawLanes(width: number): void {
    const pen = this.pen;
    pen.font = "12px system-ui, sans-serif";
    this.about.lanes.forEach((name, place) => {
      const y = AXIS + place * LANE;
      pen.fillStyle = place % 2 ? themed("surface") : themed("stripe");
      pen.fillRect(0, y, width, LANE);
      pen.fillStyle = themed("text");
      const short = name.length > 15 ? `${name.slice(0, 14)}…` : name;
      pen.fillText(short, 8, y + LANE / 2 + 4);
    });
  }

  private drawTiles(): void {
    const all = this.about.end - this.about.start, shown = this.to - this.from;
    const wanted = Math.ceil(Math.log2((all / shown) * ((this.width - LEFT) / this.about.bins)));
    const level = Math.min(Math.max(0, wanted), LEVEL_MAX);
    const size = all / 2 ** level;
    const first = Math.max(0, Math.floor((this.from - this.about.start) / size));
    const last = Math.min(2 ** level - 1, Math.floor((this.to - this.about.start) / size));
    this.pen.imageSmoothingEnabled = false;
    for (let place = first; place <= last; place++) this.drawTile(level, place, size);
  }

  private drawTile(level: number, place: number, size: number): void {
    const begin = this.about.start + place * size;
    const left = this.x(begin), width = this.x(begin + size) - left;
    // A coarser tile stands in for one that is on its way.
    for (let up = 0; up <= level; up++) {
      const found = this.cache.get(level - up, place >> up);
      if (!found) continue;
      const part = found.canvas.width / 2 ** up;
      const offset = (place % 2 ** up) * part;
      this.pen.drawImage(found.canvas, offset, 0, part, found.canvas.height, left, AXIS, width, found.canvas.height);
      return;
    }
  }

  private drawSpans(): void {
    const pen = this.pen;
    const one = themed("span"), lit = themed("accent");
    this.spans.forEach(([begin, end, lane, , , inside, share], n) => {
      const place = this.lanes.get(lane);
      if (place === undefined || end < this.from || begin > this.to) return;
      const left = this.x(begin), width = Math.max(3, this.x(end) - left), y = AXIS + place * LANE + 3;
      const chosen = n === this.chosen;
      pen.fillStyle = chosen ? lit : one;
      // Events that more matches go through are darker.
      pen.globalAlpha = chosen ? 1 : share === undefined ? 0.85 : 0.1 + 0.9 * share;
      pen.beginPath();
      pen.roundRect(left, y, width, 7, 3);
      pen.fill();
      pen.globalAlpha = 1;
      if (width > 24 || chosen) {
        pen.fillStyle = themed("text");
        for (const at of inside) pen.fillRect(this.x(at) - 0.75, y - 1, 1.5, 9);
      }
    });
  }

  private drawAxis(width: number): void {
    const pen = this.pen, shown = this.to - this.from;
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1e3])
      .concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
        172800, 604800, 2592000, 31536000].map((n) => n * 1e6)).sort((a, b) => a - b);
    const wanted = (shown / (width - LEFT)) * 95;
    const step = steps.find((n) => n >= wanted) ?? 10 ** Math.ceil(Math.log10(wanted));
    pen.fillStyle = themed("muted");
    pen.strokeStyle = themed("line");
    pen.lineWidth = 1;
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < LEFT) continue;
      pen.beginPath();
      pen.moveTo(x, AXIS - 5);
      pen.lineTo(x, AXIS + this.about.lanes.length * LANE);
      pen.globalAlpha = 0.35;
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillText(this.time(at, step), x + 3, 16);
    }
    if (this.about.dates) pen.fillText(new Date(Math.max(this.from, this.about.start) / 1000).toISOString().slice(0, 10), 8, 16);
  }

  private find(x: number, y: number): number {
    const place = Math.floor((y - AXIS) / LANE), inner = (y - AXIS) % LANE;
    if (inner > 16) return -1;
    let best = -1;
    this.spans.forEach(([begin, end, lane], n) => {
      if (this.lanes.get(lane) !== place) return;
      if (this.x(begin) - 4 <= x && x <= Math.max(this.x(end), this.x(begin) + 3) + 4) {
        if (best < 0 || end - begin < this.spans[best][1] - this.spans[best][0]) best = n;
      }
    });
    return best;
  }

  private listen(): void {
    const canvas = this.canvas;
    let drag: { x: number; from: number; to: number; moved: boolean } | null = null;
    const place = (event: MouseEvent) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, from: this.from, to: this.to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (drag) {
        const by = ((drag.x - event.clientX) / (this.width - LEFT)) * (drag.to - drag.from);
        drag.moved = drag.moved || Math.abs(drag.x - event.clientX) > 3;
        if (drag.moved) this.view(drag.from + by, drag.to + by);
      } else {
        const found = this.find(x, y);
        canvas.style.cursor = found >= 0 ? "pointer" : "grab";
        if (found >= 0) {
          const [begin, end, lane, name] = this.spans[found];
          this.told(`${name} in ${lane}, ${this.time(begin)} to ${this.time(end)}`);
        } else if (x > LEFT) this.told(this.time(this.at(x), (this.to - this.from) / this.width));
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const moved = drag?.moved;
      drag = null;
      if (moved) return;
      const [x, y] = place(event);
      const found = this.find(x, y);
      if (found >= 0) {
        this.chosen = found;
        this.later();
        this.open();
      }
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const [x] = place(event);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 800);
      else this.zoom(1.0015 ** event.deltaY, this.at(Math.max(x, LEFT)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const keys: Record<string, () => void> = {
        ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
        "-": () => this.zoom(1 / 0.7), "0": () => this.all(), n: () => this.next(1), p: () => this.next(-1), Enter: () => this.open(),
      };
      const known = keys[event.key];
      if (!known || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      known();
    });
  }
}

function legend(about: Timeline): HTMLElement {
  return h("ul", { class: "legend" }, ...about.types.map((name, n) => h("li", {}, h("span", { class: `swatch back-${n % 12}` }), name)),
    h("li", {}, h("span", { class: "swatch span-swatch" }), "matches, situations, and events by their share"));
}

function picture(drawing: Drawing): void {
  drawing.canvas.toBlob((blob) => blob && download("timeline.png", blob), "image/png");
}

function vector(drawing: Drawing): void {
  const canvas = drawing.canvas, box = canvas.getBoundingClientRect();
  const made = s("svg", { xmlns: "http://www.w3.org/2000/svg", width: box.width, height: box.height, viewBox: `0 0 ${box.width} ${box.height}` },
    s("image", { href: canvas.toDataURL("image/png"), width: box.width, height: box.height }));
  download("timeline.svg", new Blob([new XMLSerializer().serializeToString(made)], { type: "image/svg+xml" }));
}

let built = "";
let picked: { data: string; lanes: string | null } | null = null;

/** Return the column that makes the lanes: the one a person picked for this data set, else the query's first key. */
function lanesBy(): string | null {
  return picked?.data === state.data ? picked.lanes : (state.plan?.keys[0] ?? null);
}

/** Build the timeline of the data set, with the spans of the last run. */
export async function drawTimeline(view: HTMLElement): Promise<void> {
  if (!state.data) return;
  const chosen = lanesBy();
  const wanted = `${state.data}/${state.run?.status === "done" ? state.run.id : ""}/${chosen}`;
  if (wanted === built && view.querySelector("canvas")) return;
  built = wanted;
  put(view, h("p", { class: "empty" }, "Sorting the events …"));
  try {
    const told = await post<Told>("timelines", { data: state.data, key: chosen, run: state.run?.id ?? "" });
    if (wanted !== built) return;
    if (told.status !== "done") throw new Error(told.answer.message);
    const line = h("output", { class: "muted told" });
    const spans = told.spans.spans;
    const drawing = new Drawing(told.id, told.timeline, spans, (text) => put(line, text));
    const columns = (state.about?.columns ?? []).map((column) => column.name);
    const about = told.timeline;
    const lanes = about.lanes.length < about.lane_count ? `${about.lanes.length} of ${number(about.lane_count)} lanes` : about.lanes.length === 1 ? "1 lane" : `${about.lanes.length} lanes`;
    put(view,
      h("div", { class: "pager" },
        h("label", { class: "field" }, h("span", {}, "Lanes"),
          h("select", { onchange: (event: Event) => {
            picked = { data: state.data, lanes: (event.target as HTMLSelectElement).value || null };
            void drawTimeline(view);
          } },
            h("option", { value: "", selected: !chosen }, "one lane"),
            ...columns.map((name) => h("option", { value: name, selected: name === chosen }, name)))),
        h("span", { class: "muted about" }, `${short(about.events)} events, ${lanes}` +
          (told.spans.kind ? `, ${number(spans.length)}${told.spans.total > spans.length ? ` of ${number(told.spans.total)}` : ""} spans` : "")),
        h("span", { class: "grow" }),
        button("−", () => drawing.zoom(1 / 0.6), { "aria-label": "Zoom out" }), button("+", () => drawing.zoom(0.6), { "aria-label": "Zoom in" }),
        button("All", () => drawing.all(), { title: "Show all time" }),
        button("Next span", () => drawing.next(1), { disabled: !spans.length }),
        button("Open", () => drawing.open(), { disabled: !spans.length, title: "Open the chosen match" }),
        menu("Save", () => [{ label: "PNG", act: () => picture(drawing) }, { label: "SVG", act: () => vector(drawing) }])),
      drawing.canvas, line, legend(about));
    drawing.later();
  } catch (error) {
    built = "";
    put(view, h("pre", { class: "failure" }, (error as Error).message));
  }
}
