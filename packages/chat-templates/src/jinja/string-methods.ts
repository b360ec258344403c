import { boundArguments, integerArgument } from './arguments.js';
import { formatText } from './format-spec.js';
import { isTrue, listElements } from './operations.js';
import { characters, countCharacters, isPlane0, joined, softText } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { takeSlice } from './slices.js';
import { capitalized, folded, isOfKind, swapped, titled } from './string-case.js';
import { partition, rsplit, split, splitLines, strip } from './string-splits.js';
import {
  type CallArguments,
  Dict,
  escapedHtml,
  isList,
  isText,
  Markup,
  PythonFunction,
  plain,
  Tuple,
  typeName,
  type Value,
} from './values.js';

type Method = (text: string, args: CallArguments, runtime: Runtime) => Value;

/** Returns the method `name` of a str; undefined if there is no such method. */
export function stringMethod(
  of: string | Markup,
  name: string,
  runtime: Runtime,
): PythonFunction | undefined {
  const method = methods.get(name) ?? kindMethod(name);
  if (method === undefined) return undefined;
  return new PythonFunction(name, (args) => {
    const text = plain(of);
    runtime.budget.characters(text.length);
    if (!(of instanceof Markup)) return method(text, args, runtime);
    return asMarkup(method(text, escaping.has(name) ? escapedArguments(args, runtime) : args, runtime));
  });
}

// Methods that insert their arguments into the string. If the string is HTML, these arguments are escaped.
const escaping = new Set(['join', 'replace', 'center', 'ljust', 'rjust', 'format', 'format_map']);

/** Escapes the arguments of a method that is called on an HTML string. */
function escapedArguments({ positional, named }: CallArguments, runtime: Runtime): CallArguments {
  const escaped = (value: Value): Value => {
    if (isText(value)) return escapedHtml(value);
    if (!isList(value) && !(value instanceof Tuple)) return value;
    return listElements(value, runtime).map(escaped);
  };
  return {
    positional: positional.map(escaped),
    named: new Map([...named].map(([name, value]) => [name, escaped(value)])),
  };
}

function asMarkup(value: Value): Value {
  if (typeof value === 'string') return new Markup(value);
  if (isList(value)) return value.map(asMarkup);
  return value instanceof Tuple ? new Tuple(value.items.map(asMarkup)) : value;
}

function kindMethod(name: string): Method | undefined {
  if (isOfKind(name, '') === undefined) return undefined;
  return (text, args) => {
    boundArguments(name, args);
    return isOfKind(name, text)!;
  };
}

function textArgument(callee: string, value: Value | undefined): string {
  if (value !== undefined && isText(value)) return plain(value);
  throw new TemplateError(`${callee}() argument must be str, not ${typeName(value ?? null)}`);
}

const withoutArguments =
  (name: string, change: (text: string, runtime: Runtime) => Value): Method =>
  (text, args, runtime) => {
    boundArguments(name, args);
    return change(text, runtime);
  };

const stripping =
  (name: string, sides: { readonly start: boolean; readonly end: boolean }): Method =>
  (text, args) => {
    const [given = null] = boundArguments(name, args, ['chars']);
    return strip(text, given === null ? null : textArgument(name, given), sides);
  };

const splitting =
  (name: string, pieces: typeof split): Method =>
  (text, args, runtime) => {
    const [separator = null, most] = boundArguments(name, args, ['sep', 'maxsplit']);
    const given = separator === null ? null : textArgument(name, separator);
    return pieces(text, given, integerArgument(name, most, -1), runtime);
  };

/** Reads the arguments of `count`, `find` and other methods that search in a part of the string. */
function searched(name: string, text: string, args: CallArguments, runtime: Runtime) {
  const [sought, start = null, end = null] = boundArguments(name, args, ['sub', 'start', 'end'], 1);
  const part =
    start === null && end === null ? text : (takeSlice(text, [start, end, undefined], runtime) as string);
  const length = countCharacters(text, runtime);
  const from = start === null ? 0n : (start as bigint);
  const offset = Number(from < 0n ? from + BigInt(length) : from);
  return { sought: sought!, part, offset: Math.max(0, offset), isBeyond: offset > length };
}

const finding =
  (name: string, isLast: boolean, mustBe: boolean): Method =>
  (text, args, runtime) => {
    const { sought, part, offset, isBeyond } = searched(name, text, args, runtime);
    const one = textArgument(name, sought);
    const at = isBeyond ? -1 : isLast ? part.lastIndexOf(one) : part.indexOf(one);
    if (at >= 0) return BigInt(offset + (isPlane0(part) ? at : countCharacters(part.slice(0, at), runtime)));
    if (mustBe) throw new TemplateError('substring not found');
    return -1n;
  };

const testing =
  (name: 'startsWith' | 'endsWith', python: string): Method =>
  (text, args, runtime) => {
    const { sought, part, isBeyond } = searched(python, text, args, runtime);
    const choices = sought instanceof Tuple ? sought.items : [sought];
    return choices.some((one) => {
      if (!isText(one)) {
        throw new TemplateError(`${python} first arg must be str or a tuple of str, not ${typeName(one)}`);
      }
      return !isBeyond && part[name](plain(one));
    });
  };

const justifying =
  (name: string, before: (room: number, width: number) => number): Method =>
  (text, args, runtime) => {
    const [width, fill = ' '] = boundArguments(name, args, ['width', 'fillchar'], 1);
    return justified(text, { width: integerArgument(name, width, 0), fill, before }, runtime);
  };

function justified(
  text: string,
  how: {
    readonly width: number;
    readonly fill: Value;
    readonly before: (room: number, width: number) => number;
  },
  runtime: Runtime,
): string {
  const { width, before } = how;
  const fill = textArgument('center', how.fill);
  if (countCharacters(fill.slice(0, 3), runtime) !== 1 && !fill.startsWith('&')) {
    throw new TemplateError('The fill character must be exactly one character long');
  }
  const room = Math.max(0, width - countCharacters(text, runtime));
  runtime.budget.characters(room * fill.length);
  const left = before(room, width);
  return fill.repeat(left) + text + fill.repeat(room - left);
}

/** Computes `text.center(width)`. */
export const centered = (text: string, width: number, runtime: Runtime): string =>
  justified(text, { width, fill: ' ', before: computeHalf }, runtime);

/**
 * Returns how many of the `room` padding characters go to the left of the string. As in Python, an odd
 * character goes to the left only if the width is odd, too.
 */
const computeHalf = (room: number, width: number): number => (room >> 1) + (room & width & 1);

/** Computes `text.replace(old, by, most)`. A negative `most` replaces all occurrences. */
export function replaced(
  text: string,
  { old, by, most }: { readonly old: string; readonly by: string; readonly most: number },
  { budget }: Runtime,
): string {
  const limit = most < 0 ? Number.POSITIVE_INFINITY : most;
  budget.characters(text.length);
  const parts: string[] = [];
  let at = 0;
  if (old === '') {
    for (const character of text) {
      if (parts.length >= limit) break;
      budget.step();
      parts.push(character);
      at += character.length;
    }
    // Here `old` is the empty string, which occurs before each character and at the end of `text`.
    const between = parts.length < limit ? parts.length + 1 : parts.length;
    budget.characters(between * by.length);
    return parts.map((part) => by + part).join('') + (between > parts.length ? by : '') + text.slice(at);
  }
  for (let next = text.indexOf(old); next >= 0 && parts.length < limit; next = text.indexOf(old, at)) {
    budget.step();
    budget.characters(by.length);
    parts.push(text.slice(at, next));
    at = next + old.length;
  }
  parts.push(text.slice(at));
  return parts.join(by);
}

function expandedTabs(text: string, size: number, runtime: Runtime): string {
  let column = 0;
  const parts: string[] = [];
  for (const character of characters(text, runtime)) {
    const width = size <= 0 ? 0 : size - (column % size);
    parts.push(character === '\t' ? runtimeSpaces(width, runtime) : character);
    column = character === '\n' || character === '\r' ? 0 : column + (character === '\t' ? width : 1);
  }
  return parts.join('');
}

function runtimeSpaces(count: number, { budget }: Runtime): string {
  budget.characters(count);
  return ' '.repeat(count);
}

/** Concatenates the strings in `values`, with `separator` between them. */
function joinedBy(separator: string, values: readonly Value[], runtime: Runtime): string {
  const texts = values.map((value, index) => {
    if (isText(value)) return plain(value);
    throw new TemplateError(`sequence item ${index}: expected str instance, ${typeName(value)} found`);
  });
  return joined(
    texts.flatMap((text, index) => (index === 0 ? [text] : [separator, text])),
    runtime,
  );
}

function zeroFilled(text: string, width: number, runtime: Runtime): string {
  const room = Math.max(0, width - countCharacters(text, runtime));
  runtime.budget.characters(room);
  const sign = /^[+-]/.exec(text)?.[0] ?? '';
  return sign + '0'.repeat(room) + text.slice(sign.length);
}

const methods = new Map<string, Method>([
  ['capitalize', withoutArguments('capitalize', (text, runtime) => capitalized(characters(text, runtime)))],
  ['title', withoutArguments('title', (text, runtime) => titled(characters(text, runtime)))],
  ['swapcase', withoutArguments('swapcase', (text, runtime) => swapped(characters(text, runtime)))],
  ['lower', withoutArguments('lower', (text) => text.toLowerCase())],
  ['upper', withoutArguments('upper', (text) => text.toUpperCase())],
  ['casefold', withoutArguments('casefold', (text, runtime) => folded(characters(text, runtime)))],
  ['strip', stripping('strip', { start: true, end: true })],
  ['lstrip', stripping('lstrip', { start: true, end: false })],
  ['rstrip', stripping('rstrip', { start: false, end: true })],
  ['split', splitting('split', split)],
  ['rsplit', splitting('rsplit', rsplit)],
  ['find', finding('find', false, false)],
  ['rfind', finding('rfind', true, false)],
  ['index', finding('index', false, true)],
  ['rindex', finding('rindex', true, true)],
  ['startswith', testing('startsWith', 'startswith')],
  ['endswith', testing('endsWith', 'endswith')],
  ['ljust', justifying('ljust', () => 0)],
  ['rjust', justifying('rjust', (room) => room)],
  ['center', justifying('center', computeHalf)],
  [
    'splitlines',
    (text, args, runtime) => {
      const [keeps = false] = boundArguments('splitlines', args, ['keepends']);
      return splitLines(text, isTrue(keeps), runtime);
    },
  ],
  [
    'partition',
    (text, args) => {
      const [separator] = boundArguments('partition', args, ['sep'], 1);
      return new Tuple(partition(text, textArgument('partition', separator), false));
    },
  ],
  [
    'rpartition',
    (text, args) => {
      const [separator] = boundArguments('rpartition', args, ['sep'], 1);
      return new Tuple(partition(text, textArgument('rpartition', separator), true));
    },
  ],
  [
    'removeprefix',
    (text, args) => {
      const prefix = textArgument('removeprefix', boundArguments('removeprefix', args, ['prefix'], 1)[0]);
      return text.startsWith(prefix) ? text.slice(prefix.length) : text;
    },
  ],
  [
    'removesuffix',
    (text, args) => {
      const suffix = textArgument('removesuffix', boundArguments('removesuffix', args, ['suffix'], 1)[0]);
      return suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
    },
  ],
  [
    'replace',
    (text, args, runtime) => {
      const [old, by, most] = boundArguments('replace', args, ['old', 'new', 'count'], 2);
      const how = { old: textArgument('replace', old), by: textArgument('replace', by) };
      return replaced(text, { ...how, most: integerArgument('replace', most, -1) }, runtime);
    },
  ],
  [
    'count',
    (text, args, runtime) => {
      const { sought, part, isBeyond } = searched('count', text, args, runtime);
      const one = textArgument('count', sought);
      if (isBeyond) return 0n;
      return BigInt(one === '' ? countCharacters(part, runtime) + 1 : part.split(one).length - 1);
    },
  ],
  [
    'join',
    (text, args, runtime) => {
      const [values] = boundArguments('join', args, ['iterable'], 1);
      return joinedBy(text, listElements(values!, runtime, 'can only join an iterable'), runtime);
    },
  ],
  [
    'zfill',
    (text, args, runtime) => {
      const [width] = boundArguments('zfill', args, ['width'], 1);
      return zeroFilled(text, integerArgument('zfill', width, 0), runtime);
    },
  ],
  [
    'expandtabs',
    (text, args, runtime) => {
      const [size] = boundArguments('expandtabs', args, ['tabsize']);
      return expandedTabs(text, integerArgument('expandtabs', size, 8), runtime);
    },
  ],
  ['format', (text, args, runtime) => formatText(text, args, runtime)],
  [
    'format_map',
    (text, args, runtime) => {
      const [mapping] = boundArguments('format_map', args, ['mapping'], 1);
      if (!(mapping instanceof Dict)) throw new TemplateError('format_map() takes a mapping');
      const named = new Map(mapping.entries().map(([key, value]) => [plain(softText(key, runtime)), value]));
      return formatText(text, { positional: [], named }, runtime);
    },
  ],
]);
