// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");

/** Write a number: whole ones with commas, others with few digits. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return whole.format(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size < 1e-4 && size > 0)) return value.toExponential(3);
  return new Intl.NumberFormat("en", { maximumSignificantDigits: size >= 1000 ? 8 : 6 }).format(value);
}

/** Write an amount in three digits at most. */
export function short(value: number): string {
  const units: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, unit] of units) {
    if (Math.abs(value) >= size) return `${(value / size).toPrecision(3).replace(/\.?0+$/, "")} ${unit}`;
  }
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

/** Write a size in bytes. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

/** Write a time in microseconds as UTC, as exactly as the step needs. */
export function moment(micros: number, step_us = 1): string {
  const date = new Date(micros / 1000);
  if (Number.isNaN(date.getTime())) return String(micros);
  const iso = date.toISOString();
  if (step_us >= 86_400e6) return iso.slice(0, 10);
  if (step_us >= 60e6) return iso.slice(11, 16);
  if (step_us >= 1e6) return iso.slice(11, 19);
  if (step_us >= 1e3) return iso.slice(11, 23);
  return iso.slice(11, 23) + String(Math.round(((micros % 1000) + 1000) % 1000)).padStart(3, "0");
}

/** Write a value of a row. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return number(value);
  if (typeof value === "string") {
    return /^\d{4}-\d\d-\d\dT/.test(value) ? value.replace("T", " ").replace("+00:00", "") : value;
  }
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** Write a length of time in seconds. */
export function seconds(value: number): string {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  return `${Math.round(value / 60)} min`;
}
