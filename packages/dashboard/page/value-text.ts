import { element } from './element.js';

/** Returns the value of a flag or a condition as text. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return '–';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Between words of a value: behind the separators of paths, lists and names. */
const betweenWords = /(?<=[/\\,;:=_.|])(?=[^/\\,;:=_.|\d\s])/u;

/** Returns the parts of a value that a line may end after: words, and numbers with their point. */
export const wordsOf = (text: string): readonly string[] => text.split(betweenWords);

/** Shows a value; one that is too long for its line is broken between words. */
export function valueElement(text: string): HTMLElement {
  const parts = wordsOf(text).flatMap((word, at) => (at === 0 ? [word] : [element('wbr'), word]));
  return element('span', { class: 'value' }, ...parts);
}
