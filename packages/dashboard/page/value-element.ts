import { element } from './element.js';
import { splitWords } from './value-text.js';

/** Returns an element with a value. A value that is too long for its line is wrapped between words. */
export function valueElement(text: string): HTMLElement {
  const parts = splitWords(text).flatMap((word, at) => (at === 0 ? [word] : [element('wbr'), word]));
  return element('span', { class: 'value' }, ...parts);
}
