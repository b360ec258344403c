import { floatText } from '../python/float-text.js';
import { whitespace } from './lexer.js';
import { type Runtime, TemplateError } from './runtime.js';
import {
  Dict,
  isList,
  isText,
  Markup,
  PythonFunction,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** The maximum number of decimal digits of an int that Python converts to a string. */
export const maximumDigits = 4300;

/** Computes `str(value)`. */
export function convertToText(value: Value, runtime: Runtime): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return '';
  return formatRepr(value, runtime);
}

/** Computes `str(value)`. A str that is HTML already (`Markup`) stays HTML. */
export const softText = (value: Value, runtime: Runtime): string | Markup =>
  isText(value) ? value : convertToText(value, runtime);

/** Computes `repr(value)`. */
export function formatRepr(value: Value, runtime: Runtime): string {
  const { budget } = runtime;
  budget.step();
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return integerText(value, runtime);
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'string') return quoted(value, runtime);
  if (value instanceof Markup) return `Markup(${quoted(value.text, runtime)})`;
  if (runtime.hasNoText(value)) {
    throw new TemplateError(`prints a ${typeName(value)} of content parts, for which it takes a text`);
  }
  budget.enter();
  const inside = (items: readonly Value[]) => items.map((item) => formatRepr(item, runtime));
  let text: string | undefined;
  if (isList(value)) text = joined(['[', ...separated(inside(value)), ']'], runtime);
  else if (value instanceof Tuple) {
    const items = inside(value.items);
    text = joined(['(', ...separated(items), items.length === 1 ? ',)' : ')'], runtime);
  } else if (value instanceof Dict) {
    const entries = value.entries().map((entry) => inside(entry).join(': '));
    text = joined(['{', ...separated(entries), '}'], runtime);
  } else text = value.repr?.((item) => formatRepr(item, runtime));
  budget.leave();
  if (text !== undefined) return text;
  const name = value instanceof PythonFunction ? `${typeName(value)} ${value.name}` : typeName(value);
  throw new TemplateError(`prints a ${name}, which has another text in each run`);
}

/** Returns the decimal digits of an int. */
export function integerText(value: bigint, { budget }: Runtime): string {
  const text = value.toString();
  budget.characters(text.length);
  if (text.length <= maximumDigits) return text;
  throw new TemplateError(`Exceeds the limit (${maximumDigits} digits) for integer string conversion`);
}

const separated = (texts: readonly string[]): readonly string[] =>
  texts.flatMap((text, index) => (index === 0 ? [text] : [', ', text]));

/** Concatenates strings, and counts their characters in the budget. */
export function joined(texts: readonly string[], { budget }: Runtime): string {
  budget.step(texts.length);
  for (const { length } of texts) budget.characters(length);
  return texts.join('');
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
// Characters that `repr` escapes: separators except the ASCII space, and Unicode's category "other".
const unprintable = /[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

function quoted(text: string, { budget }: Runtime): string {
  budget.characters(text.length);
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(unprintable, (character) => escapes[character] ?? escapedCode(character));
  budget.characters(escaped.length);
  return `${quote}${quote === "'" ? escaped.replaceAll("'", "\\'") : escaped}${quote}`;
}

function escapedCode(character: string): string {
  const code = character.codePointAt(0)!;
  const [letter, width] = code <= 0xff ? ['x', 2] : code <= 0xffff ? ['u', 4] : ['U', 8];
  return `\\${letter}${code.toString(16).padStart(width as number, '0')}`;
}

/** Returns the characters of `text`. As in Python, a character is a code point. */
export function characters(text: string, { budget }: Runtime): readonly string[] {
  budget.characters(text.length);
  budget.step(Math.ceil(text.length / 4));
  return isPlane0(text) ? text.split('') : Array.from(text);
}

/** Returns true if each UTF-16 unit of `text` is one code point. */
export const isPlane0 = (text: string): boolean => !/[\ud800-\udfff]/.test(text);

/** Computes `len(text)`. */
export function countCharacters(text: string, { budget }: Runtime): number {
  budget.characters(text.length);
  if (isPlane0(text)) return text.length;
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

const notSpace = new RegExp(`[^${whitespace}]`);
/** Returns the length of the white space at the start of `text`. */
export const startOfText = (text: string): number => {
  const at = text.search(notSpace);
  return at < 0 ? text.length : at;
};
