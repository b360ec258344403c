/** Returns the value of a flag or a condition as text. */
export function formatValue(value: unknown): string {
  if (value === undefined || value === null) return '–';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Matches the positions between words of a value: behind separators of paths, lists and names. */
const betweenWords = /(?<=[/\\,;:=_.|])(?=[^/\\,;:=_.|\d\s])/u;

/** Returns the parts of a value that a line may end after: words, and numbers with their point. */
export const splitWords = (text: string): readonly string[] => text.split(betweenWords);
