import { endOfText, whitespace } from './lexer.js';
import { startOfText } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';

const spaces = new RegExp(`[${whitespace}]+`, 'g');
/** The characters, other than `\n` and `\r`, that end a line in Python. */
const separators = '\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const lineEnds = new RegExp(`\\r\\n|[\\n\\r${separators}]`, 'g');

/**
 * Computes `text.split(separator, most)`. If `separator` is null, splits at white space.
 * @param most the maximum number of splits; a negative number means all
 */
export function split(
  text: string,
  separator: string | null,
  most: number,
  runtime: Runtime,
): readonly string[] {
  const parts: string[] = [];
  let at = separator === null ? startOfText(text) : 0;
  while (most < 0 || parts.length < most) {
    const [start, end] = separator === null ? spaceAt(text, at) : separatorAt(text, separator, at);
    if (start < 0) break;
    runtime.budget.step();
    parts.push(text.slice(at, start));
    at = end;
  }
  const rest = text.slice(at);
  if (separator !== null) return [...parts, rest];
  // The last part, which is not split, keeps the white space inside it and at its end.
  return rest === '' ? parts : [...parts, rest];
}

function spaceAt(text: string, from: number): readonly [number, number] {
  spaces.lastIndex = from;
  const found = spaces.exec(text);
  return found === null ? [-1, -1] : [found.index, spaces.lastIndex];
}

function separatorAt(text: string, separator: string, from: number): readonly [number, number] {
  if (separator === '') throw new TemplateError('empty separator');
  const start = text.indexOf(separator, from);
  return [start, start + separator.length];
}

/** Computes `text.rsplit(separator, most)`, which splits from the end. */
export function rsplit(
  text: string,
  separator: string | null,
  most: number,
  runtime: Runtime,
): readonly string[] {
  if (separator === null) return rsplitSpace(text, most, runtime);
  if (separator === '') throw new TemplateError('empty separator');
  const parts: string[] = [];
  let end = text.length;
  while (most < 0 || parts.length < most) {
    const start = end < separator.length ? -1 : text.lastIndexOf(separator, end - separator.length);
    if (start < 0) break;
    runtime.budget.step();
    parts.push(text.slice(start + separator.length, end));
    end = start;
  }
  return [...parts, text.slice(0, end)].reverse();
}

function rsplitSpace(text: string, most: number, runtime: Runtime): readonly string[] {
  const words = split(text, null, -1, runtime);
  if (most < 0 || words.length <= most) return words;
  // The first part, which is not split, keeps the white space inside it and at its start.
  let end = text.length;
  const kept = most === 0 ? [] : words.slice(-most);
  for (const word of [...kept].reverse()) end = text.lastIndexOf(word, end - 1);
  return [strip(text.slice(0, end), null, { start: false, end: true }), ...kept];
}

/** Computes `text.splitlines(keeps)`. */
export function splitLines(text: string, keeps: boolean, { budget }: Runtime): readonly string[] {
  const lines: string[] = [];
  let at = 0;
  for (const { 0: end, index } of text.matchAll(lineEnds)) {
    budget.step();
    lines.push(text.slice(at, keeps ? index + end.length : index));
    at = index + end.length;
  }
  if (at < text.length) lines.push(text.slice(at));
  return lines;
}

/** Computes `text.partition(separator)`, or `text.rpartition(separator)` if `isLast` is true. */
export function partition(
  text: string,
  separator: string,
  isLast: boolean,
): readonly [string, string, string] {
  if (separator === '') throw new TemplateError('empty separator');
  const at = isLast ? text.lastIndexOf(separator) : text.indexOf(separator);
  if (at < 0) return isLast ? ['', '', text] : [text, '', ''];
  return [text.slice(0, at), separator, text.slice(at + separator.length)];
}

/** Computes `text.strip(characters)` at the chosen sides. If `characters` is null, removes white space. */
export function strip(
  text: string,
  characters: string | null,
  sides: { readonly start: boolean; readonly end: boolean },
): string {
  if (characters === null) {
    const rest = sides.start ? text.slice(startOfText(text)) : text;
    return sides.end ? rest.slice(0, endOfText(rest)) : rest;
  }
  const taken = new Set(characters);
  let [start, end] = [0, text.length];
  if (sides.start) {
    for (const character of text) {
      if (!taken.has(character)) break;
      start += character.length;
    }
  }
  while (sides.end && end > start) {
    const isPair = /[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(Math.max(start, end - 2), end));
    const size = isPair ? 2 : 1;
    if (!taken.has(text.slice(end - size, end))) break;
    end -= size;
  }
  return text.slice(start, end);
}
