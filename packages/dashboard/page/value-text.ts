/** Returns the value of a flag or a condition as a string. */
export function formatValue(value: unknown): string {
  if (value === undefined || value === null) return '–';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Matches positions after separators in paths, lists and names, where a value may be wrapped. */
const betweenWords = /(?<=[/\\,;:=_.|])(?=[^/\\,;:=_.|\d\s])/u;

/** Splits a value at the positions where it may be wrapped. Numbers are not split at their decimal point. */
export const splitWords = (text: string): readonly string[] => text.split(betweenWords);
