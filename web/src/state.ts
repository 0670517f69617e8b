// What the page knows: the query, the data set, the last plan and the last run. Parts of the page
// hear of changes by the name of what has changed.

import type { DataSet, Finding, Plan, Run, Session } from "./api";

export interface State {
  session: Session;
  text: string;
  data: string;
  about: DataSet | null;
  plan: Plan | null;
  findings: Finding[];
  run: Run | null;
}

type Name = keyof State;
type Hears = () => void;

export const state = {
  text: "",
  data: "",
  about: null,
  plan: null,
  findings: [],
  run: null,
} as unknown as State;

const heard = new Map<Name, Hears[]>();

/** Call a function whenever something changes. */
export function on(name: Name, hears: Hears): void {
  heard.set(name, [...(heard.get(name) ?? []), hears]);
}

/** Change something, and tell those who want to hear of it. */
export function set<K extends Name>(name: K, value: State[K]): void {
  state[name] = value;
  for (const hears of heard.get(name) ?? []) hears();
}
