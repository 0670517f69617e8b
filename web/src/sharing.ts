// Links to a query, and its text for other places: Python, SQL and the command line.

import { state } from "./state";

/** Make a link to the query and the name of its data set; it has no token. */
export function link(): string {
  const part = new URLSearchParams({ q: state.text, data: state.data });
  return `${location.origin}/#${part}`;
}

/** Read the query of a link. */
export function linked(): { text: string; data: string } | null {
  const part = new URLSearchParams(location.hash.slice(1));
  const text = part.get("q");
  return text === null ? null : { text, data: part.get("data") ?? "" };
}

function quoted(text: string): string {
  return `"""${text.replace(/\\/g, "\\\\").replace(/"""/g, '\\"\\"\\"')}\n"""`;
}

function options(): string {
  const { time, type, time_unit, time_format } = state.session.columns;
  const given: string[] = [];
  if (time !== "ts") given.push(`time=${JSON.stringify(time)}`);
  if (type !== "type") given.push(`type=${JSON.stringify(type)}`);
  if (time_unit !== "us") given.push(`time_unit=${JSON.stringify(time_unit)}`);
  if (time_format) given.push(`time_format=${JSON.stringify(time_format)}`);
  return given.length ? `, ${given.join(", ")}` : "";
}

/** Write the query as Python. */
export function asPython(): string {
  const place = JSON.stringify(state.about?.path ?? "events.parquet");
  return `import cepheid\n\nq = cepheid.query(${quoted(`\n${state.text}`)}${options()})\nprint(q.run(${place}).to_pylist())\n`;
}

/** Write the query for the command line. */
export function asCommand(): string {
  const shell = (text: string) => `'${text.replace(/'/g, "'\\''")}'`;
  const { time, type, time_unit, time_format } = state.session.columns;
  const given = [
    time === "ts" ? "" : ` --time ${shell(time)}`, type === "type" ? "" : ` --type ${shell(type)}`,
    time_unit === "us" ? "" : ` --time-unit ${time_unit}`, time_format ? ` --time-format ${shell(time_format)}` : "",
  ].join("");
  return `cepheid run -q ${shell(state.text)} --input ${shell(state.about?.path ?? "events.parquet")}${given}\n`;
}

/** Write the query as SQL where it is SQL; otherwise as a statement of Python around it. */
export function asSql(): string {
  const sql = /^\s*(select|with)\b/i.test(state.text);
  return sql ? `${state.text.trim()};\n` : `-- This query is in Cepheid's own language; cepheid.query runs it.\n${state.text.trim()}\n`;
}
