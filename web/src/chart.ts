// Charts of numbers: lines over windows or values with groups as colours, bars of groups, cells of pairs.

import { get } from "./api";
import type { Chart, Series } from "./api";
import { button, h, put, s } from "./dom";
import { saveButtons } from "./saving";
import { state } from "./state";
import { moment, number, short } from "./text";
import { funnelBars } from "./why";

const WIDTH = 760;
const HEIGHT = 320;
const LEFT = 66;
const BOTTOM = 40;
const TOP = 16;
const LOGARITHMIC_FROM = 1000;

interface Scale { of: (value: number) => number; ticks: number[] }

function linear(low: number, high: number, from: number, to: number): Scale {
  const span = high - low || 1;
  const raw = span / 5, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * size).find((one) => one >= raw) ?? raw;
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) ticks.push(at);
  return { of: (value) => from + ((value - low) / span) * (to - from), ticks };
}

function logarithmic(high: number, low: number, from: number, to: number): Scale {
  const bottom = Math.floor(Math.log10(low)), top = Math.ceil(Math.log10(high) + 1e-9);
  const span = Math.max(1, top - bottom);
  const every = Math.max(1, Math.ceil(span / 6));
  const ticks = Array.from({ length: Math.floor(span / every) + 1 }, (_, n) => 10 ** (bottom + n * every));
  return { of: (value) => from + ((Math.log10(Math.max(value, 10 ** bottom)) - bottom) / span) * (to - from), ticks };
}

function scaleOf(values: number[], log: boolean): Scale {
  const positive = values.filter((value) => value > 0);
  const high = Math.max(...values, 0);
  if (log && positive.length) return logarithmic(high, Math.min(...positive), HEIGHT - BOTTOM, TOP);
  return linear(Math.min(0, ...values), high || 1, HEIGHT - BOTTOM, TOP);
}

function axes(y: Scale, log: boolean): SVGElement[] {
  return y.ticks.flatMap((tick) => [
    s("line", { x1: LEFT, x2: WIDTH - 10, y1: y.of(tick), y2: y.of(tick), class: "grid" }),
    s("text", { x: LEFT - 8, y: y.of(tick) + 4, "text-anchor": "end", class: "tick" },
      log && tick >= 1e6 ? tick.toExponential(0).replace("e+", "e") : short(tick)),
  ]);
}

function frame(name: string, parts: SVGElement[]): SVGElement {
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": `Chart of ${name}` }, ...parts);
}

function lines(chart: Chart, place: number, log: boolean): SVGElement {
  const series = chart.series as Series[];
  const times = series.flatMap((one) => one.points.map((point) => point[0] as number));
  const values = series.flatMap((one) => one.points.map((point) => point[place + 1])).filter((v): v is number => v !== null);
  const y = scaleOf(values, log);
  const x = linear(Math.min(...times), Math.max(...times), LEFT + 8, WIDTH - 22);
  const step = (Math.max(...times) - Math.min(...times)) / 6;
  const shownTime = (tick: number) => (chart.dates ? moment(tick * 1000, step * 1000) : number(tick));
  const low = Math.min(...times);
  const ticks = chart.dates ? Array.from({ length: 6 }, (_, n) => low + n * step * 1.2) : x.ticks;
  return frame(chart.numbers[place], [
    ...axes(y, log),
    ...ticks.map((tick) => s("text", { x: x.of(tick), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle", class: "tick" }, shownTime(tick))),
    ...series.flatMap((one, n) => {
      const known = one.points.filter((point) => point[place + 1] !== null);
      const at = known.map((point) => [x.of(point[0] as number), y.of(point[place + 1] as number)]);
      const dots = at.length <= 120 ? at.map(([cx, cy], k) => s("circle", { cx, cy, r: 3.2, class: `fill-${n % 12}` },
        s("title", {}, `${one.name} ${shownTime(known[k][0] as number)}: ${number(known[k][place + 1] as number)}`))) : [];
      return [s("polyline", { points: at.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" "), class: `line stroke-${n % 12}` }), ...dots];
    }),
  ]);
}

function bars(chart: Chart, place: number, log: boolean): SVGElement {
  const all = chart.bars ?? [];
  const y = scaleOf(all.map((bar) => bar.values[place] ?? 0), log);
  const room = (WIDTH - LEFT - 16) / Math.max(1, all.length);
  const every = Math.ceil(all.length / 12);
  return frame(chart.numbers[place], [
    ...axes(y, log),
    ...all.flatMap((bar, n) => {
      const value = bar.values[place];
      const left = LEFT + 6 + n * room, base = HEIGHT - BOTTOM, top = value === null ? base : y.of(value);
      return [
        s("rect", { x: left + room * 0.12, y: Math.min(top, base), width: room * 0.76, height: Math.abs(base - top), class: "fill-0", rx: 2 },
          s("title", {}, `${bar.name}: ${value === null ? "NULL" : number(value)}`)),
        ...(n % every ? [] : [s("text", { x: left + room / 2, y: base + 18, "text-anchor": "middle", class: "tick" },
          bar.name.length > 14 ? `${bar.name.slice(0, 13)}…` : bar.name)]),
      ];
    }),
  ]);
}

function grid(chart: Chart): SVGElement {
  const cells = chart.cells ?? [];
  const [across, up] = [0, 1].map((axis) => {
    const values = [...new Set(cells.map((cell) => cell[axis]))];
    return values.every((value) => typeof value === "number") ? values.sort((a, b) => (a as number) - (b as number)) : values;
  });
  const [column, row] = [across, up].map((values) => new Map(values.map((value, n) => [value, n])));
  const width = (WIDTH - LEFT - 16) / Math.max(1, across.length), height = (HEIGHT - BOTTOM - TOP) / Math.max(1, up.length);
  const most = Math.max(...cells.map((cell) => (cell[2] as number | null) ?? 0)) || 1;
  const text = (value: unknown) => (typeof value === "number" ? number(value) : String(value));
  const every = (values: unknown[], room: number) => Math.max(1, Math.ceil(values.length / room));
  const shown = (values: unknown[], room: number) => values.map((value, n) => [value, n] as const).filter(([, n]) => n % every(values, room) === 0);
  const [name, other] = chart.axes ?? ["", ""];
  return frame(chart.numbers[0], [
    ...cells.filter((cell) => cell[2] !== null).map(([x, y, value]) => s("rect", {
      x: LEFT + (column.get(x) ?? 0) * width, y: HEIGHT - BOTTOM - ((row.get(y) ?? 0) + 1) * height, width: width + 0.3, height: height + 0.3,
      class: "fill-0", "fill-opacity": (0.06 + 0.94 * Math.max(0, value as number) / most).toFixed(3),
    }, s("title", {}, `${name} ${text(x)}, ${other} ${text(y)}: ${number(value as number)}`))),
    ...shown(across, 12).map(([value, n]) => s("text", { x: LEFT + (n + 0.5) * width, y: HEIGHT - BOTTOM + 16, "text-anchor": "middle", class: "tick" }, text(value))),
    ...shown(up, 12).map(([value, n]) => s("text", { x: LEFT - 8, y: HEIGHT - BOTTOM - (n + 0.5) * height + 4, "text-anchor": "end", class: "tick" }, text(value))),
    s("text", { x: WIDTH - 16, y: HEIGHT - 6, "text-anchor": "end", class: "tick" }, name),
    s("text", { x: 4, y: 12, class: "tick" }, other),
  ]);
}

function legend(chart: Chart): HTMLElement | null {
  const series = chart.series ?? [];
  if (series.length < 2) return null;
  const more = (chart.series_count ?? 0) - series.length;
  return h("ul", { class: "legend" }, ...series.map((one, n) => h("li", {}, h("span", { class: `swatch back-${n % 12}` }), one.name || "all")),
    more > 0 ? h("li", { class: "muted" }, `and ${more} more`) : null);
}

/** Draw the chart of the last run. */
export async function drawChart(view: HTMLElement, chosen = 0, scale?: boolean): Promise<void> {
  const run = state.run;
  if (!run || run.status !== "done") return;
  const chart = await get<Chart>(`runs/${run.id}/chart`);
  if (state.run !== run) return;
  if (!chart.kind) {
    put(view, h("p", { class: "empty" }, "There is nothing to draw: the result has no numbers. Matches, situations and the events of BLAME are on the timeline."));
    return;
  }
  if (chart.kind === "funnel") {
    put(view, h("h3", {}, "Funnel"), funnelBars(chart.steps ?? [], "keys"));
    return;
  }
  if (chart.kind === "grid") {
    const cells = grid(chart);
    put(view, h("div", { class: "pager" }, h("span", {}, chart.numbers[0]), h("span", { class: "grow" }), ...saveButtons("chart", () => cells)), cells);
    return;
  }
  const values = (chart.series?.flatMap((one) => one.points.map((p) => p[chosen + 1])) ?? chart.bars?.map((bar) => bar.values[chosen]) ?? [])
    .filter((value): value is number => value !== null && value > 0);
  const log = scale ?? (values.length > 0 && Math.max(...values) / Math.min(...values) > LOGARITHMIC_FROM);
  const axis = chart.kind === "lines" && chart.axes ? h("p", { class: "muted" }, `along ${chart.axes[0]}`) : null;
  const picture = chart.kind === "lines" ? lines(chart, chosen, log) : bars(chart, chosen, log);
  const select = h("select", { "aria-label": "Number", onchange: (event: Event) => drawChart(view, Number((event.target as HTMLSelectElement).value)) },
    ...chart.numbers.map((name, n) => h("option", { value: n, selected: n === chosen }, name)));
  put(view,
    h("div", { class: "pager" }, select,
      button(log ? "Logarithmic" : "Linear", () => drawChart(view, chosen, !log), { "aria-pressed": String(log), title: "Change the scale" }),
      h("span", { class: "grow" }), ...saveButtons("chart", () => picture)),
    picture, axis, legend(chart));
}
