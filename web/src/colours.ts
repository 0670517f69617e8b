// Colours of series and types, which people with any sight can tell apart, from the style sheet.

export const COLOURS = 12;

/** Read a colour of the current theme. */
export function colour(place: number): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--series-${place % COLOURS}`).trim();
}

/** Read another colour of the theme. */
export function themed(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
