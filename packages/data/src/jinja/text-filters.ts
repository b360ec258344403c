import { boundArguments, integerArgument } from './arguments.js';
import type { Filter } from './filter.js';
import { escapedHtml } from './html.js';
import { whitespace } from './lexer.js';
import { concatenate, elementsOf, isTrue } from './operations.js';
import { formatPercent } from './percent-format.js';
import { characters, joined, lengthOf, softText, textOf } from './printing.js';
import type { Runtime } from './runtime.js';
import { attributeGetter } from './sequence-filters.js';
import { capitalized } from './string-case.js';
import { centered, replaced } from './string-methods.js';
import { rsplit, splitLines, strip } from './string-splits.js';
import { TemplateError } from './template-error.js';
import { toJson } from './to-json.js';
import { Dict, isText, Markup, plain, Tuple, typeName, Undefined, type Value } from './values.js';
import { wrapped } from './wrap-words.js';

const wordStart = new RegExp(`([-${whitespace}({\\[<]+)`);

/** A filter that changes a text; what counts as HTML remains HTML. */
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
  const taken = given === null ? null : textOf(given, runtime);
  return like(softText(value, runtime), (text) => strip(text, taken, { start: true, end: true }), runtime);
};

const replace: Filter = (value, args, runtime) => {
  const [old, by, count = null] = boundArguments('replace', args, ['old', 'new', 'count'], 2);
  const how = { old: textOf(old!, runtime), by: textOf(by!, runtime) };
  const most = count === null ? -1 : integerArgument('replace', count, -1);
  return replaced(textOf(value, runtime), { ...how, most }, runtime);
};

const join: Filter = (value, args, runtime) => {
  const [separator = '', attribute = null] = boundArguments('join', args, ['d', 'attribute']);
  const get = attributeGetter(attribute, runtime);
  const between = textOf(separator, runtime);
  const texts = elementsOf(value, runtime).map((one) => textOf(get(one), runtime));
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
  const behind = textOf(end, runtime);
  const endLength = lengthOf(behind, runtime);
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
  const between = by === null ? '\n' : textOf(by, runtime);
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

/** A text without what is between two others, these included. */
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
  const text = textOf(value, runtime);
  runtime.budget.characters(text.length);
  const words = without(without(text, '<!--', '-->'), '<', '>')
    .split(new RegExp(`[${whitespace}]+`))
    .filter((word) => word !== '');
  return words.join(' ').replace(/&(#?\w+);/g, (whole, name: string) => characterReferences[name] ?? whole);
};

const urlencode: Filter = (value, args, runtime) => {
  boundArguments('urlencode', args);
  const quoted = (one: Value, kept: string) =>
    encodeURIComponent(textOf(one, runtime))
      .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
      .replace(/%2F/g, kept);
  if (isText(value) || value === null || typeof value !== 'object') return quoted(value, '/');
  const pairs =
    value instanceof Dict
      ? value.entries()
      : elementsOf(value, runtime).map((pair) => elementsOf(pair, runtime));
  return pairs
    .map(([key, one]) => `${quoted(key!, '%2F')}=${quoted(one!, '%2F')}`.replaceAll('%20', '+'))
    .join('&');
};

const escaped: Filter = (value, args, runtime) => {
  boundArguments('escape', args);
  return new Markup(escapedHtml(softText(value, runtime)));
};

/** Filters of texts. */
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
    return BigInt(textOf(value, runtime).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0);
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
    return new Markup(escapedHtml(textOf(value, runtime)));
  },
  safe: (value, args, runtime) => {
    boundArguments('safe', args);
    return new Markup(textOf(value, runtime));
  },
  tojson: toJson,
};

/** `~` between values. */
export const concatenated = (values: readonly Value[], runtime: Runtime): string =>
  concatenate(
    values.map((value) => textOf(value, runtime)),
    runtime,
  ) as string;
