// Menus of buttons that open below their button, and close by Escape or a click elsewhere.

import { button, h } from "./dom";

export interface Item { label: string; detail?: string; act: () => void }

/** Make a button with a menu; its items are asked for when it opens. */
export function menu(label: string, items: () => Item[], attributes: Record<string, unknown> = {}): HTMLElement {
  const list = h("div", { class: "menu", role: "menu", "aria-label": label, hidden: true });
  const opener = button(label, () => (list.hidden ? open() : close()), { "aria-haspopup": "menu", "aria-expanded": "false", ...attributes });
  const close = (focus = false) => {
    list.hidden = true;
    opener.setAttribute("aria-expanded", "false");
    if (focus) opener.focus();
  };
  const open = () => {
    const all = items();
    list.replaceChildren(...(all.length ? all.map((item) => h("button", { type: "button", role: "menuitem", tabindex: "-1",
      onclick: () => (close(true), item.act()) }, h("span", {}, item.label), item.detail ? h("small", {}, item.detail) : null)) :
      [h("p", { class: "muted" }, "Nothing yet")]));
    list.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    (list.firstElementChild as HTMLElement | null)?.focus();
  };
  list.addEventListener("keydown", (event) => {
    const all = [...list.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const place = all.indexOf(document.activeElement as HTMLElement);
    const steps: Record<string, number> = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: all.length - 1 };
    if (event.key === "Escape") close(true);
    else if (event.key in steps && all.length) all[(steps[event.key] + all.length) % all.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const box = h("div", { class: "menu-box" }, opener, list);
  document.addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target as Node)) close();
  });
  box.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !box.contains(event.relatedTarget as Node)) close();
  });
  return box;
}
