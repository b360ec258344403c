import { floatText } from '../python/numbers.js';
import { boundArguments } from './arguments.js';
import { isLess, isTrue } from './operations.js';
import { integerText, joined } from './printing.js';
import type { Runtime } from './runtime.js';
import { TemplateError } from './template-error.js';
import { type CallArguments, Dict, isList, isText, plain, Tuple, typeName, type Value } from './values.js';

interface Layout {
  readonly ascii: boolean;
  /** Undefined: all in one line. */
  readonly indent: string | undefined;
  readonly item: string;
  readonly key: string;
  readonly sorts: boolean;
}

/**
 * The filter `tojson` as the transformers library has it: Python's `json.dumps`, without its ASCII escapes.
 */
export function toJson(value: Value, args: CallArguments, runtime: Runtime): string {
  const names = ['ensure_ascii', 'indent', 'separators', 'sort_keys'];
  const [ascii = false, indent = null, separators = null, sorts = false] = boundArguments(
    'tojson',
    args,
    names,
  );
  const layout = {
    ascii: isTrue(ascii),
    indent: indentOf(indent, runtime),
    ...separatorsOf(separators, indent === null),
    sorts: isTrue(sorts),
  };
  const parts: string[] = [];
  write(value, '\n', { layout, runtime, parts });
  return joined(parts, runtime);
}

function indentOf(value: Value, { budget }: Runtime): string | undefined {
  if (value === null) return undefined;
  if (isText(value)) return plain(value);
  if (typeof value !== 'bigint' && typeof value !== 'boolean') {
    throw new TemplateError(`can't multiply sequence by non-int of type '${typeName(value)}'`);
  }
  const width = Math.max(0, Number(value));
  budget.characters(width);
  return ' '.repeat(width);
}

function separatorsOf(value: Value, isOneLine: boolean): { readonly item: string; readonly key: string } {
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

/** @param line the line break before what is on the same level as the value */
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
    inBrackets(entriesOf(value, writing), { brackets: '{}', line, one }, writing);
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

function entriesOf(dict: Dict, { layout, runtime }: Writing): readonly (readonly [Value, Value])[] {
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
