// Dark and light: as the system has it, until somebody chooses.

const KEY = "cepheid-theme";
const THEMES = ["system", "light", "dark"];

function apply(theme: string): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  window.dispatchEvent(new Event("resize"));
}

/** Tell the theme that was chosen. */
export function theme(): string {
  return localStorage.getItem(KEY) ?? "system";
}

/** Choose the next theme. */
export function nextTheme(): string {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  localStorage.setItem(KEY, next);
  apply(next);
  return next;
}

/** Apply the theme that was chosen before. */
export function startTheme(): void {
  apply(theme());
}
