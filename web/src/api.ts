// The endpoints of the server, and the shapes of their answers.

export interface Edit { from: number; to: number; text: string }
export interface Fix { title: string; edits: Edit[] }
export interface Finding {
  code: string;
  severity: "error" | "warning" | "information";
  message: string;
  label: string;
  helps: string[];
  block: string;
  span: [number, number];
  fixes: Fix[];
}
export interface Condition { text: string; span: [number, number] }
export interface GraphNode { name: string; type: string; end: boolean; conditions: Condition[] }
export interface GraphLink { source: number; target: number; guard: string; conditions: Condition[] }
export interface Graph { nodes: GraphNode[]; links: GraphLink[] }
export interface PlanLine { text: string; spans: [number, number][] }
export interface Plan {
  title: string;
  evaluator: string;
  time: string;
  state: string;
  keys: string[];
  lists_matches: boolean;
  streams: string[];
  graphs: Graph[];
  sections: { name: string; lines: PlanLine[] }[];
}
export interface Column { name: string; type: string }
export interface DataSet {
  name: string;
  path: string;
  columns: Column[];
  events: number | null;
  sample: Record<string, unknown>[];
  examples: { name: string; text: string }[];
}
export interface Session {
  version: string;
  sets: { name: string; kind: string }[];
  queries: { name: string; text: string }[];
  columns: { time: string; type: string; time_unit: string; time_format: string | null };
  limits: { rows: number; seconds: number };
  write: boolean;
}
export interface Run {
  id: string;
  status: "running" | "done" | "failed" | "cancelled";
  events: number;
  seconds: number;
  answer: Record<string, any>;
}
export interface Rows { columns: Column[]; rows: unknown[][]; total: number }
export interface Series { name: string; points: (number | null)[][] }
export interface Chart {
  kind: "" | "lines" | "bars" | "funnel" | "grid";
  steps?: { text: string; count: number }[];
  numbers: string[];
  axes?: string[];
  cells?: (number | string | null)[][];
  series?: Series[];
  series_count?: number;
  dates?: boolean;
  bars?: { name: string; values: (number | null)[] }[];
  rows?: number;
}
export type Span = [number, number, string, string, number, number[], number?];
export interface Timeline {
  start: number;
  end: number;
  lanes: string[];
  lane_count: number;
  types: string[];
  key: string | null;
  dates: boolean;
  events: number;
  bins: number;
}
export interface MatchEvent {
  event: Record<string, unknown>;
  taken: boolean;
  variable: string;
  why: string;
}
export interface LiveFigures {
  events: number;
  rows: number;
  rules: Record<string, number>;
  rate: number;
  seconds: number;
  latest: number | null;
  watermark: number | null;
  lag_s: number | null;
  lag_records: number | null;
  waiting: number;
  state: number;
  late: number;
  bad: number;
}

async function answer(response: Response): Promise<any> {
  if (response.ok) return response.json();
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).message;
  } catch {
    // The text is the message.
  }
  throw new Error(message);
}

/** Read from an endpoint. */
export async function get<T>(path: string): Promise<T> {
  return answer(await fetch(`/api/${path}`));
}

/** Ask an endpoint. */
export async function post<T>(path: string, body: object, signal?: AbortSignal): Promise<T> {
  return answer(
    await fetch(`/api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    }),
  );
}

/** Stop a run. */
export async function cancel(id: string): Promise<Run> {
  return answer(await fetch(`/api/runs/${id}`, { method: "DELETE" }));
}

/** Read a tile of a timeline. */
export async function tile(id: string, level: number, place: number): Promise<ArrayBuffer> {
  const response = await fetch(`/api/timelines/${id}/${level}/${place}`);
  if (!response.ok) throw new Error("there is no such tile");
  return response.arrayBuffer();
}
