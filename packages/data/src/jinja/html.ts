import { Markup } from './values.js';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Returns a text as HTML: escaped, unless it counts as HTML already. */
export const escapedHtml = (text: string | Markup): string =>
  text instanceof Markup ? text.text : text.replace(/[&<>'"]/g, (character) => entities[character]!);
