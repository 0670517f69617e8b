// Tabs, as the patterns of accessible pages have them: arrows move, one view is shown.

import { byId, h } from "./dom";

export interface Tab { name: string; label: string; view: HTMLElement; shown?: () => void }

const tabs: Tab[] = [];

function control(tab: Tab): HTMLButtonElement {
  return byId<HTMLButtonElement>(`tab-${tab.name}`);
}

/** Show a view. */
export function show(name: string, focus = false): void {
  for (const tab of tabs) {
    const chosen = tab.name === name;
    tab.view.hidden = !chosen;
    const button = control(tab);
    button.setAttribute("aria-selected", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
    if (chosen) {
      if (focus) button.focus();
      tab.shown?.();
    }
  }
}

/** Tell which view is shown. */
export function showing(): string {
  return tabs.find((tab) => !tab.view.hidden)?.name ?? "";
}

function move(event: KeyboardEvent): void {
  const place = tabs.findIndex((tab) => tab.name === showing());
  const steps: Record<string, number> = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 };
  if (!(event.key in steps)) return;
  event.preventDefault();
  show(tabs[(steps[event.key] + tabs.length) % tabs.length].name, true);
}

/** Add a view; `shown` is called whenever it is. */
export function addTab(name: string, label: string, shown?: () => void): HTMLElement {
  const view = h("div", { id: `view-${name}`, class: "view", role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: "0", hidden: true });
  byId("views").append(view);
  const list = byId("tabs");
  list.append(h("button", { id: `tab-${name}`, type: "button", role: "tab", "aria-controls": `view-${name}`,
    "aria-selected": "false", tabindex: "-1", onclick: () => show(name) }, label));
  if (!tabs.length) list.addEventListener("keydown", move);
  tabs.push({ name, label, view, shown });
  return view;
}
