// The queries that were run, kept by this browser.

const KEY = "cepheid-history";
const KEPT = 50;

export interface Past { text: string; data: string; when: number }

/** Read the queries, the newest first. */
export function past(): Past[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as Past[];
  } catch {
    return [];
  }
}

/** Remember a query. */
export function remember(text: string, data: string): void {
  const others = past().filter((one) => one.text !== text || one.data !== data);
  localStorage.setItem(KEY, JSON.stringify([{ text, data, when: Date.now() }, ...others].slice(0, KEPT)));
}
