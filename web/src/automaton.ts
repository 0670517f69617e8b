// The automaton of a pattern as a picture: variables as nodes, edges with predicates and guards.

import type { Condition, Graph } from "./api";
import { s } from "./dom";

const NODE_W = 132;
const GAP_MIN = 118;
const GAP_MAX = 236;
const CHARACTERS = 24;
const CHARACTER_W = 7.4;

function cut(text: string, most = CHARACTERS): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function label(x: number, y: number, text: string, kind: string, most: number, click?: () => void): SVGElement {
  return s("text", { x, y, class: `label ${kind}${click ? " link" : ""}`, "text-anchor": "middle", onclick: click },
    s("title", {}, text), cut(text, most));
}

function head(x: number, y: number, dx: number, dy: number): SVGElement {
  const points = [[x, y], [x - 9 * dx - 4.5 * dy, y - 9 * dy - 4.5 * dx], [x - 9 * dx + 4.5 * dy, y - 9 * dy + 4.5 * dx]];
  return s("polygon", { points: points.map((p) => p.join(",")).join(" "), class: "head" });
}

/** Draw a graph; `mark` shows the place of a condition in the query. */
export function drawAutomaton(graph: Graph, mark: (spans: [number, number][]) => void): SVGElement {
  const conditions = Math.max(0, ...graph.nodes.map((node) => node.conditions.length));
  const reach = Math.max(1, ...graph.links.map((link) => Math.abs(link.target - link.source)));
  const loops = Math.max(0, ...graph.links.filter((l) => l.source >= l.target)
    .map((l) => l.conditions.length + (l.guard ? 1 : 0)));
  const top = 70 + 14 * loops + 20 * Math.max(0, reach - 1);
  const start = 40;
  // Edges to the next node are as long as their longest text.
  const longest = Math.max(0, ...graph.links.filter((link) => link.target === link.source + 1 && link.source)
    .flatMap((link) => [link.guard, ...link.conditions.map((one) => one.text)]).map((text) => text.length));
  const GAP = Math.min(GAP_MAX, Math.max(GAP_MIN, longest * CHARACTER_W + 26));
  const STEP = NODE_W + GAP, most = Math.floor((GAP - 22) / CHARACTER_W);
  const width = start + (graph.nodes.length - 1) * STEP + 30;
  const height = top + 34 + 16 * conditions + (reach > 1 ? 34 + 18 * reach : 14);
  const center = (place: number) => (place === 0 ? 18 : start + GAP_MIN / 2 + NODE_W / 2 + (place - 1) * STEP);
  const half = (place: number) => (place === 0 ? 8 : NODE_W / 2);
  const click = (one: Condition) => () => mark([one.span]);
  const parts: SVGElement[] = [];
  for (const link of graph.links) {
    const from = center(link.source), to = center(link.target);
    const texts = [
      ...(link.guard ? [{ text: link.guard, kind: "guard", click: undefined as (() => void) | undefined }] : []),
      ...link.conditions.map((one) => ({ text: one.text, kind: "condition", click: click(one) })),
    ];
    if (link.target === link.source + 1) {
      parts.push(s("path", { d: `M${from + half(link.source)} ${top}H${to - half(link.target) - 6}`, class: "edge" }));
      parts.push(head(to - half(link.target) - 1, top, 1, 0));
      const x = (from + half(link.source) + to - half(link.target)) / 2;
      texts.forEach((one, n) => parts.push(label(x, top - 9 - 14 * (texts.length - 1 - n), one.text, one.kind, most, one.click)));
    } else if (link.target === link.source) {
      const y = top - 27;
      parts.push(s("path", { d: `M${from - 26} ${y}C${from - 40} ${y - 38} ${from + 40} ${y - 38} ${from + 26} ${y - 4}`, class: "edge" }));
      parts.push(head(from + 25, y, -0.3, 0.95));
      texts.forEach((one, n) => parts.push(label(from, y - 34 - 14 * (texts.length - 1 - n), one.text, one.kind, 36, one.click)));
    } else {
      const back = link.target < link.source ? 1 : -1;
      const y = top + back * 27, bend = y + back * (26 + 18 * Math.abs(link.target - link.source));
      parts.push(s("path", { d: `M${from} ${y}C${from} ${bend} ${to} ${bend} ${to} ${y + back * 4}`, class: "edge" }));
      parts.push(head(to, y, 0, -back));
      const middle = (y + 3 * bend) / 4;
      texts.forEach((one, n) => parts.push(label((from + to) / 2, middle + back * 14 * (n + 0.6), one.text, one.kind, 34, one.click)));
    }
  }
  graph.nodes.forEach((node, place) => {
    const x = center(place);
    if (place === 0) {
      parts.push(s("circle", { cx: x, cy: top, r: 8, class: "start" }));
      return;
    }
    parts.push(s("rect", { x: x - NODE_W / 2, y: top - 27, width: NODE_W, height: 54, rx: 10, class: node.end ? "node end" : "node" }));
    if (node.end) {
      parts.push(s("rect", { x: x - NODE_W / 2 + 4, y: top - 23, width: NODE_W - 8, height: 46, rx: 7, class: "inner" }));
    }
    parts.push(label(x, node.type && node.type !== node.name ? top - 2 : top + 5, node.name, "name", 15));
    if (node.type && node.type !== node.name) parts.push(label(x, top + 15, node.type, "type", 18));
    node.conditions.forEach((one, n) => parts.push(label(x, top + 46 + 16 * n, one.text, "condition", 30, click(one))));
  });
  const names = graph.nodes.slice(1).map((node) => node.name).join(", ");
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "automaton", role: "img",
    "aria-label": `Automaton with the variables ${names}` }, ...parts);
}
