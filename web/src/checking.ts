// Check the text while somebody types: one request at a time, the newest text last.

import { post } from "./api";
import type { Finding, Plan } from "./api";
import { showFindings } from "./editor";
import { on, set, state } from "./state";

const WAIT_MS = 25;

let timer = 0;
let current: AbortController | null = null;

async function check(): Promise<void> {
  current?.abort();
  current = new AbortController();
  const text = state.text;
  try {
    const told = await post<{ findings: Finding[]; plan: Plan | null }>(
      "check", { text, data: state.data || null }, current.signal,
    );
    if (text !== state.text) return;
    showFindings(told.findings);
    set("findings", told.findings);
    if (told.plan || !told.findings.some((one) => one.severity === "error")) set("plan", told.plan);
  } catch (error) {
    if ((error as Error).name !== "AbortError") console.warn(error);
  }
}

/** Check after every change of the text or of the data set. */
export function startChecking(): void {
  const later = () => {
    clearTimeout(timer);
    timer = window.setTimeout(check, WAIT_MS);
  };
  on("text", later);
  on("about", later);
}
