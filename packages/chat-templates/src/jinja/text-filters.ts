import { floatText } from '../python/float-text.js';
import { boundArguments, type Filter, integerArgument } from './arguments.js';
import { whitespace } from './lexer.js';
import { concatenate, isLess, isTrue, listElements } from './operations.js';
import { formatPercent } from './percent-format.js';
import { characters, convertToText, countCharacters, integerText, joined, softText } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { attributeGetter } from './sequence-filters.js';
import { capitalized } from './string-case.js';
import { centered, replaced } from './string-methods.js';
import { rsplit, splitLines, strip } from './string-splits.js';
import {
  type CallArguments,
  Dict,
  escapedHtml,
  isList,
  isText,
  Markup,
  plain,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

const wordStart = new RegExp(`([-${whitespace}({\\[<]+)`);

/** Makes a filter from a function that changes a string. An HTML string stays HTML. */
const changing =
  (name: string, change: (text: string, runtime: Runtime) => string): Filter =>
  (value, args, runtime) => {
    boundArguments(name, args);
    return like(softText(value, runtime), (text) => change(text, runtime), runtime);
  };

function like(text: string | Markup, change: (text: string) => string, { budget }: Runtime): string | Markup {
  budget.characters(plain(text).length);
  const changed = change(plain(text));
  return text instanceof Markup ? new Markup(changed) : changed;
}

function titleCase(text: string, runtime: Runtime): string {
  runtime.budget.step(text.length / 8);
  return text
    .split(wordStart)
    .map((part) => {
      const first = part === '' ? '' : String.fromCodePoint(part.codePointAt(0)!);
      return first.toUpperCase() + part.slice(first.length).toLowerCase();
    })
    .join('');
}

const trim: Filter = (value, args, runtime) => {
  const [given = null] = boundArguments('trim', args, ['chars']);
  const taken = given === null ? null : convertToText(given, runtime);
  return like(softText(value, runtime), (text) => strip(text, taken, { start: true, end: true }), runtime);
};

const replace: Filter = (value, args, runtime) => {
  const [old, by, count = null] = boundArguments('replace', args, ['old', 'new', 'count'], 2);
  const how = { old: convertToText(old!, runtime), by: convertToText(by!, runtime) };
  const most = count === null ? -1 : integerArgument('replace', count, -1);
  return replaced(convertToText(value, runtime), { ...how, most }, runtime);
};

const join: Filter = (value, args, runtime) => {
  const [separator = '', attribute = null] = boundArguments('join', args, ['d', 'attribute']);
  const get = attributeGetter(attribute, runtime);
  const between = convertToText(separator, runtime);
  const texts = listElements(value, runtime).map((one) => convertToText(get(one), runtime));
  return joined(
    texts.flatMap((text, index) => (index === 0 ? [text] : [between, text])),
    runtime,
  );
};

const indent: Filter = (value, args, runtime) => {
  const [width = 4n, first = false, blank = false] = boundArguments('indent', args, [
    'width',
    'first',
    'blank',
  ]);
  if (value instanceof Undefined) throw new TemplateError(value.message);
  if (!isText(value)) {
    throw new TemplateError(`unsupported operand type(s) for +=: '${typeName(value)}' and 'str'`);
  }
  const { budget } = runtime;
  const size = isText(width) ? plain(width).length : Math.max(0, integerArgument('indent', width, 4));
  budget.characters(size);
  const before = isText(width) ? plain(width) : ' '.repeat(size);
  return like(
    value,
    (text) => {
      const [start = '', ...others] = splitLines(`${text}\n`, false, runtime);
      const isIndented = (line: string) => isTrue(blank) || line !== '';
      budget.characters(others.filter(isIndented).length * size);
      const lines = [start, ...others.map((line) => (isIndented(line) ? before + line : line))];
      return (
        (isTrue(first) ? before : '') +
        joined(
          lines.flatMap((line, at) => (at === 0 ? [line] : ['\n', line])),
          runtime,
        )
      );
    },
    runtime,
  );
};

const truncate: Filter = (value, args, runtime) => {
  const names = ['length', 'killwords', 'end', 'leeway'];
  const [length, cutsWords = false, end = '...', leeway = null] = boundArguments('truncate', args, names);
  if (!isText(value)) throw new TemplateError(`object of type '${typeName(value)}' has no len()`);
  const most = integerArgument('truncate', length, 255);
  const behind = convertToText(end, runtime);
  const endLength = countCharacters(behind, runtime);
  if (most < endLength) throw new TemplateError(`expected length >= ${endLength}, got ${most}`);
  const more = leeway === null ? 5 : integerArgument('truncate', leeway, 5);
  if (more < 0) throw new TemplateError(`expected leeway >= 0, got ${more}`);
  const all = characters(plain(value), runtime);
  if (all.length <= most + more) return value;
  const kept = all.slice(0, most - endLength).join('');
  return (isTrue(cutsWords) ? kept : rsplit(kept, ' ', 1, runtime)[0]!) + behind;
};

const format: Filter = (value, { positional, named }, runtime) => {
  if (positional.length > 0 && named.size > 0) {
    throw new TemplateError("can't handle positional and keyword arguments at the same time");
  }
  const values = named.size > 0 ? Dict.of([...named]) : new Tuple(positional);
  return formatPercent(softText(value, runtime), values, runtime);
};

const wordwrap: Filter = (value, args, runtime) => {
  const names = ['width', 'break_long_words', 'wrapstring', 'break_on_hyphens'];
  const [width, breaksWords = true, by = null, breaksHyphens = true] = boundArguments(
    'wordwrap',
    args,
    names,
  );
  if (!isText(value)) throw new TemplateError(`'${typeName(value)}' object has no attribute 'splitlines'`);
  const between = by === null ? '\n' : convertToText(by, runtime);
  const how = {
    width: integerArgument('wordwrap', width, 79),
    breaksWords: isTrue(breaksWords),
    breaksHyphens: isTrue(breaksHyphens),
  };
  const lines = splitLines(plain(value), false, runtime).map((line) =>
    wrapped(line, how, runtime).join(between),
  );
  return joined(
    lines.flatMap((line, index) => (index === 0 ? [line] : [between, line])),
    runtime,
  );
};

const characterReferences: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  '#39': "'",
  '#34': '"',
  nbsp: '\xa0',
};

/** Removes everything between the delimiters `open` and `close` from `text`, including the delimiters. */
function without(text: string, open: string, close: string): string {
  const parts: string[] = [];
  let at = 0;
  for (let start = text.indexOf(open); start >= 0; start = text.indexOf(open, at)) {
    const end = text.indexOf(close, start);
    if (end < 0) break;
    parts.push(text.slice(at, start));
    at = end + close.length;
  }
  return parts.join('') + text.slice(at);
}

const striptags: Filter = (value, args, runtime) => {
  boundArguments('striptags', args);
  const text = convertToText(value, runtime);
  runtime.budget.characters(text.length);
  const words = without(without(text, '<!--', '-->'), '<', '>')
    .split(new RegExp(`[${whitespace}]+`))
    .filter((word) => word !== '');
  return words.join(' ').replace(/&(#?\w+);/g, (whole, name: string) => characterReferences[name] ?? whole);
};

const urlencode: Filter = (value, args, runtime) => {
  boundArguments('urlencode', args);
  const quoted = (one: Value, kept: string) =>
    encodeURIComponent(convertToText(one, runtime))
      .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
      .replace(/%2F/g, kept);
  if (isText(value) || value === null || typeof value !== 'object') return quoted(value, '/');
  const pairs =
    value instanceof Dict
      ? value.entries()
      : listElements(value, runtime).map((pair) => listElements(pair, runtime));
  return pairs
    .map(([key, one]) => `${quoted(key!, '%2F')}=${quoted(one!, '%2F')}`.replaceAll('%20', '+'))
    .join('&');
};

const escaped: Filter = (value, args, runtime) => {
  boundArguments('escape', args);
  return new Markup(escapedHtml(softText(value, runtime)));
};

/** The filters of texts, by name. */
export const textFilters: Readonly<Record<string, Filter>> = {
  capitalize: changing('capitalize', (text, runtime) => capitalized(characters(text, runtime))),
  lower: changing('lower', (text) => text.toLowerCase()),
  upper: changing('upper', (text) => text.toUpperCase()),
  title: changing('title', titleCase),
  string: changing('string', (text) => text),
  center: (value, args, runtime) => {
    const [width] = boundArguments('center', args, ['width']);
    const size = integerArgument('center', width, 80);
    return like(softText(value, runtime), (text) => centered(text, size, runtime), runtime);
  },
  wordcount: (value, args, runtime) => {
    boundArguments('wordcount', args);
    return BigInt(convertToText(value, runtime).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0);
  },
  trim,
  replace,
  join,
  indent,
  truncate,
  format,
  wordwrap,
  striptags,
  urlencode,
  escape: escaped,
  e: escaped,
  forceescape: (value, args, runtime) => {
    boundArguments('forceescape', args);
    return new Markup(escapedHtml(convertToText(value, runtime)));
  },
  safe: (value, args, runtime) => {
    boundArguments('safe', args);
    return new Markup(convertToText(value, runtime));
  },
  tojson: toJson,
};

/** Computes `a ~ b`: converts the values to strings and concatenates them. */
export const concatenated = (values: readonly Value[], runtime: Runtime): string =>
  concatenate(
    values.map((value) => convertToText(value, runtime)),
    runtime,
  ) as string;

interface WrapOptions {
  readonly width: number;
  readonly breaksWords: boolean;
  readonly breaksHyphens: boolean;
}

const spaces = '[\\t\\n\\v\\f\\r ]';
const atSpaces = new RegExp(`(${spaces}+)`);
const isSpace = new RegExp(`^${spaces}*$`);
// The pieces between which a line may be broken. A word may be broken after a hyphen, and a dash between
// words is a piece of its own.
const pieces =
  /[\t\n\v\f\r ]+|(?<=[\p{L}\p{N}_!"'&.,?])-{2,}(?=[\p{L}\p{N}_])|[^\t\n\v\f\r ]+?(?:-(?:(?<=[\p{L}_]{2}-)|(?<=[\p{L}_]-[\p{L}_]-))(?=[\p{L}_]-?[\p{L}_])|(?=[\t\n\v\f\r ]|$)|(?<=[\p{L}\p{N}_!"'&.,?])(?=-{2,}[\p{L}\p{N}_]))/gu;

/** Splits `text`, which contains no line breaks, into the same lines as Python's `textwrap.wrap`. */
function wrapped(text: string, how: WrapOptions, runtime: Runtime): readonly string[] {
  if (how.width <= 0) throw new TemplateError(`invalid width ${how.width} (must be > 0)`);
  const found = how.breaksHyphens ? (text.match(pieces) ?? []) : text.split(atSpaces);
  const chunks = found.filter((chunk) => chunk !== '').map((chunk) => characters(chunk, runtime));
  chunks.reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    runtime.budget.step();
    const line = takeLine(chunks, how, lines.length > 0);
    if (line !== '') lines.push(line);
  }
  return lines;
}

/** Removes the chunks of one line from the end of the list, and returns the line. */
function takeLine(chunks: (readonly string[])[], how: WrapOptions, isLater: boolean): string {
  const line: (readonly string[])[] = [];
  let length = 0;
  const blank = (chunk: readonly string[] | undefined) => chunk !== undefined && isSpace.test(chunk.join(''));
  if (isLater && blank(chunks.at(-1))) chunks.pop();
  while (chunks.length > 0 && length + chunks.at(-1)!.length <= how.width) {
    const chunk = chunks.pop()!;
    line.push(chunk);
    length += chunk.length;
  }
  const next = chunks.at(-1);
  if (next !== undefined && next.length > how.width) {
    const room = Math.max(1, how.width - length);
    if (how.breaksWords) {
      const end = breakIn(next, room, how);
      line.push(next.slice(0, end));
      chunks[chunks.length - 1] = next.slice(end);
    } else if (line.length === 0) line.push(chunks.pop()!);
  }
  if (blank(line.at(-1))) line.pop();
  return line.flat().join('');
}

/**
 * Returns how many characters of a word that is too long stay on the line: the characters up to a hyphen, or
 * `room` characters.
 */
function breakIn(word: readonly string[], room: number, { breaksHyphens }: WrapOptions): number {
  if (!breaksHyphens || word.length <= room) return room;
  const hyphen = word.lastIndexOf('-', room - 1);
  return hyphen > 0 && word.slice(0, hyphen).some((one) => one !== '-') ? hyphen + 1 : room;
}

interface Layout {
  readonly ascii: boolean;
  /** The string for one indentation level; undefined if all JSON is on one line. */
  readonly indent: string | undefined;
  readonly item: string;
  readonly key: string;
  readonly sorts: boolean;
}

/**
 * Computes the filter `tojson` of the transformers library: Python's `json.dumps` without escapes for
 * characters outside ASCII.
 */
function toJson(value: Value, args: CallArguments, runtime: Runtime): string {
  const names = ['ensure_ascii', 'indent', 'separators', 'sort_keys'];
  const [ascii = false, indent = null, separators = null, sorts = false] = boundArguments(
    'tojson',
    args,
    names,
  );
  const layout = {
    ascii: isTrue(ascii),
    indent: readIndent(indent, runtime),
    ...readSeparators(separators, indent === null),
    sorts: isTrue(sorts),
  };
  const parts: string[] = [];
  write(value, '\n', { layout, runtime, parts });
  return joined(parts, runtime);
}

function readIndent(value: Value, { budget }: Runtime): string | undefined {
  if (value === null) return undefined;
  if (isText(value)) return plain(value);
  if (typeof value !== 'bigint' && typeof value !== 'boolean') {
    throw new TemplateError(`can't multiply sequence by non-int of type '${typeName(value)}'`);
  }
  const width = Math.max(0, Number(value));
  budget.characters(width);
  return ' '.repeat(width);
}

function readSeparators(value: Value, isOneLine: boolean): { readonly item: string; readonly key: string } {
  if (value === null) return { item: isOneLine ? ', ' : ',', key: ': ' };
  const texts = isList(value) ? value : value instanceof Tuple ? value.items : [];
  const [item, key] = texts;
  if (texts.length === 2 && isText(item!) && isText(key!)) return { item: plain(item), key: plain(key) };
  throw new TemplateError('separators of tojson are two texts');
}

interface Writing {
  readonly layout: Layout;
  readonly runtime: Runtime;
  readonly parts: string[];
}

/**
 * Writes a value as JSON.
 * @param line a line break and the indentation for entries at the level of this value
 */
function write(value: Value, line: string, writing: Writing): void {
  const { layout, runtime, parts } = writing;
  runtime.budget.step();
  if (value === null) parts.push('null');
  else if (typeof value === 'boolean') parts.push(String(value));
  else if (typeof value === 'bigint') parts.push(integerText(value, runtime));
  else if (typeof value === 'number') parts.push(jsonFloat(value));
  else if (isText(value)) parts.push(jsonText(plain(value), layout.ascii, runtime));
  else if (isList(value) || value instanceof Tuple) {
    const items = isList(value) ? value : value.items;
    inBrackets(items, { brackets: '[]', line, one: (item, inner) => write(item, inner, writing) }, writing);
  } else if (value instanceof Dict) {
    const one = ([key, item]: readonly [Value, Value], inner: string) => {
      parts.push(jsonText(keyText(key, runtime), layout.ascii, runtime), layout.key);
      write(item, inner, writing);
    };
    inBrackets(orderEntries(value, writing), { brackets: '{}', line, one }, writing);
  } else throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
}

function inBrackets<T>(
  items: readonly T[],
  how: { readonly brackets: string; readonly line: string; readonly one: (item: T, line: string) => void },
  { layout, runtime, parts }: Writing,
): void {
  const [open, close] = [how.brackets[0]!, how.brackets[1]!];
  if (items.length === 0) {
    parts.push(how.brackets);
    return;
  }
  runtime.budget.enter();
  const inner = layout.indent === undefined ? '' : how.line + layout.indent;
  runtime.budget.characters(inner.length);
  parts.push(open);
  for (const [index, item] of items.entries()) {
    if (index > 0) parts.push(layout.item);
    if (layout.indent !== undefined) parts.push(inner);
    how.one(item, inner);
  }
  if (layout.indent !== undefined) parts.push(how.line);
  parts.push(close);
  runtime.budget.leave();
}

function orderEntries(dict: Dict, { layout, runtime }: Writing): readonly (readonly [Value, Value])[] {
  const entries = dict.entries();
  if (!layout.sorts) return entries;
  return [...entries].sort(([a], [b]) => (isLess(a, b, runtime) ? -1 : isLess(b, a, runtime) ? 1 : 0));
}

function keyText(key: Value, runtime: Runtime): string {
  if (isText(key)) return plain(key);
  if (key === null) return 'null';
  if (typeof key === 'boolean') return String(key);
  if (typeof key === 'bigint') return integerText(key, runtime);
  if (typeof key === 'number') return jsonFloat(key);
  throw new TemplateError(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return floatText(value);
  return value > 0 ? 'Infinity' : '-Infinity';
}

const escapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\f': '\\f',
  '\b': '\\b',
};

function jsonText(text: string, isAscii: boolean, { budget }: Runtime): string {
  budget.characters(text.length);
  const special = isAscii ? /["\\]|[^ !#-[\]-\x7f]/g : /["\\]|[^ -\uffff]/g;
  const escaped = text.replace(special, (unit) => {
    return escapes[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return `"${escaped}"`;
}
