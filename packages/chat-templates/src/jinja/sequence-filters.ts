import { boundArguments, type Filter, integerArgument } from './arguments.js';
import { computeKey, isEqual, isLess, isTrue, listElements, operate } from './operations.js';
import { characters, convertToText, countCharacters } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { takeSlice } from './slices.js';
import {
  type CallArguments,
  Dict,
  DictView,
  Generator,
  Group,
  isList,
  isText,
  PythonObject,
  plain,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
  valueOr,
} from './values.js';

/**
 * Returns a function that looks up a path, such as `function.name` or `0`, in a value. For the path null, the
 * function returns the value itself.
 */
export function attributeGetter(
  path: Value,
  runtime: Runtime,
  options: { readonly ignoresCase?: boolean; readonly fallback?: Value } = {},
): (value: Value) => Value {
  const { ignoresCase = false, fallback } = options;
  const parts: readonly Value[] =
    path === null
      ? []
      : isText(path)
        ? plain(path)
            .split('.')
            .map((part) => (/^\d+$/.test(part) ? BigInt(part) : part))
        : [path];
  return (value) => {
    let found = value;
    for (const part of parts) {
      found = runtime.item(found, part);
      if (fallback !== undefined && fallback !== null && found instanceof Undefined) found = fallback;
    }
    return ignoresCase && isText(found) ? plain(found).toLowerCase() : found;
  };
}

/** Sorts as Python's `sorted` does: equal values keep their order, even if `isReverse` is true. */
function sorted(
  values: readonly Value[],
  { keyOf: key, isReverse }: { readonly keyOf: (value: Value) => Value; readonly isReverse: boolean },
  runtime: Runtime,
): readonly Value[] {
  const keyed = values.map((value) => ({ value, key: key(value) }));
  const sign = isReverse ? -1 : 1;
  keyed.sort((a, b) => {
    if (isLess(a.key, b.key, runtime)) return -sign;
    return isLess(b.key, a.key, runtime) ? sign : 0;
  });
  return keyed.map(({ value }) => value);
}

const sort: Filter = (value, args, runtime) => {
  const names = ['reverse', 'case_sensitive', 'attribute'];
  const [reverse = false, cases = false, attribute = null] = boundArguments('sort', args, names);
  const paths: readonly Value[] = isText(attribute) ? plain(attribute).split(',') : [attribute];
  const getters = paths.map((path) => attributeGetter(path, runtime, { ignoresCase: !isTrue(cases) }));
  const key = (one: Value) => getters.map((get) => get(one));
  return sorted(listElements(value, runtime), { keyOf: key, isReverse: isTrue(reverse) }, runtime);
};

const dictsort: Filter = (value, args, runtime) => {
  const [cases = false, by = 'key', reverse = false] = boundArguments('dictsort', args, [
    'case_sensitive',
    'by',
    'reverse',
  ]);
  if (by !== 'key' && by !== 'value') throw new TemplateError('You can only sort by either "key" or "value"');
  if (!(value instanceof Dict))
    throw new TemplateError(`'${typeName(value)}' object has no attribute 'items'`);
  const place = by === 'key' ? 0 : 1;
  const key = (entry: Value) => {
    const one = (entry as Tuple).items[place]!;
    return !isTrue(cases) && isText(one) ? plain(one).toLowerCase() : one;
  };
  const entries = value.entries().map((entry) => new Tuple(entry));
  return sorted(entries, { keyOf: key, isReverse: isTrue(reverse) }, runtime);
};

const unique: Filter = (value, args, runtime) => {
  const [cases = false, attribute = null] = boundArguments('unique', args, ['case_sensitive', 'attribute']);
  const get = attributeGetter(attribute, runtime, { ignoresCase: !isTrue(cases) });
  const seen = new Set<string>();
  const isNew = (one: Value) => {
    const key = computeKey(get(one));
    return !seen.has(key) && seen.add(key) !== undefined;
  };
  return new Generator(listElements(value, runtime).filter(isNew));
};

const extreme =
  (name: string, isBetter: (one: Value, best: Value, runtime: Runtime) => boolean): Filter =>
  (value, args, runtime) => {
    const [cases = false, attribute = null] = boundArguments(name, args, ['case_sensitive', 'attribute']);
    const get = attributeGetter(attribute, runtime, { ignoresCase: !isTrue(cases) });
    const [first, ...others] = listElements(value, runtime);
    if (first === undefined) return new Undefined('No aggregated item, sequence was empty.');
    let [best, key] = [first, get(first)];
    for (const other of others) {
      const otherKey = get(other);
      if (isBetter(otherKey, key, runtime)) [best, key] = [other, otherKey];
    }
    return best;
  };

const sum: Filter = (value, args, runtime) => {
  const [attribute = null, start = 0n] = boundArguments('sum', args, ['attribute', 'start']);
  if (isText(start)) throw new TemplateError("sum() can't sum strings [use ''.join(seq) instead]");
  const get = attributeGetter(attribute, runtime);
  return listElements(value, runtime).reduce<Value>(
    (total, one) => operate('+', total, get(one), runtime),
    start,
  );
};

const groupby: Filter = (value, args, runtime) => {
  const [attribute, fallback = null, cases = false] = boundArguments(
    'groupby',
    args,
    ['attribute', 'default', 'case_sensitive'],
    1,
  );
  const ignoresCase = !isTrue(cases);
  const key = attributeGetter(attribute!, runtime, { ignoresCase, fallback });
  const shown = attributeGetter(attribute!, runtime, { fallback });
  const groups: { readonly key: Value; readonly values: Value[] }[] = [];
  for (const one of sorted(listElements(value, runtime), { keyOf: key, isReverse: false }, runtime)) {
    const own = key(one);
    const last = groups.at(-1);
    if (last !== undefined && isEqual(last.key, own, runtime)) last.values.push(one);
    else groups.push({ key: own, values: [one] });
  }
  return groups.map(({ key: own, values }) => new Group(ignoresCase ? shown(values[0]!) : own, values));
};

const batch: Filter = (value, args, runtime) => {
  const [count, fill = null] = boundArguments('batch', args, ['linecount', 'fill_with'], 1);
  const size = integerArgument('batch', count, 0);
  const items = listElements(value, runtime);
  if (items.length === 0) return new Generator([]);
  if (size <= 0) throw new TemplateError('batches need a size above 0');
  const rows: Value[][] = [];
  for (let at = 0; at < items.length; at += size) rows.push(items.slice(at, at + size));
  const last = rows.at(-1)!;
  if (fill !== null) {
    runtime.budget.step(size - last.length);
    while (last.length < size) last.push(fill);
  }
  return new Generator(rows);
};

const slice: Filter = (value, args, runtime) => {
  const [count, fill = null] = boundArguments('slice', args, ['slices', 'fill_with'], 1);
  const items = listElements(value, runtime);
  const number = integerArgument('slice', count, 0);
  if (number === 0) throw new TemplateError('integer division or modulo by zero');
  runtime.budget.step(Math.max(0, number));
  const [size, rest] = [Math.floor(items.length / number), items.length % number];
  let at = 0;
  const columns = Array.from({ length: Math.max(0, number) }, (_, index) => {
    const column = items.slice(at, at + size + (index < rest ? 1 : 0));
    at += column.length;
    return fill !== null && index >= rest ? [...column, fill] : column;
  });
  return new Generator(columns);
};

/**
 * Returns the function that `map` applies to each element: a named filter, or the look-up of an attribute.
 */
function mapping({ positional, named }: CallArguments, runtime: Runtime): (value: Value) => Value {
  const attribute = named.get('attribute');
  if (positional.length === 0 && attribute !== undefined) {
    const other = [...named.keys()].find((name) => name !== 'attribute' && name !== 'default');
    if (other !== undefined) throw new TemplateError(`Unexpected keyword argument '${other}'`);
    return attributeGetter(attribute, runtime, { fallback: named.get('default') ?? null });
  }
  const [name, ...others] = positional;
  if (name === undefined) throw new TemplateError('map requires a filter argument');
  return (value) => runtime.callFilter(convertToText(name, runtime), value, { positional: others, named });
}

const map: Filter = (value, args, runtime) => {
  if (!isTrue(value)) return new Generator([]);
  return new Generator(listElements(value, runtime).map(mapping(args, runtime)));
};

const selecting =
  (isWanted: boolean, byAttribute: boolean): Filter =>
  (value, { positional, named }, runtime) => {
    if (!isTrue(value)) return new Generator([]);
    const [attribute, ...others] = byAttribute ? positional : [null, ...positional];
    if (attribute === undefined) throw new TemplateError('Missing parameter for attribute name');
    const get = attributeGetter(attribute, runtime);
    const [name, ...rest] = others;
    const passes = (one: Value) =>
      name === undefined
        ? isTrue(get(one))
        : runtime.callTest(convertToText(name, runtime), get(one), { positional: rest, named });
    return new Generator(listElements(value, runtime).filter((one) => passes(one) === isWanted));
  };

const length: Filter = (value, args, runtime) => {
  boundArguments('length', args);
  if (isText(value)) return BigInt(countCharacters(plain(value), runtime));
  if (isList(value)) return BigInt(value.length);
  if (value instanceof Tuple) return BigInt(value.items.length);
  if (value instanceof Dict) return BigInt(value.size);
  if (value instanceof PythonObject && value.length !== undefined) return BigInt(value.length());
  throw new TemplateError(`object of type '${typeName(value)}' has no len()`);
};

const first: Filter = (value, args, runtime) => {
  boundArguments('first', args);
  return valueOr(listElements(value, runtime)[0], () => new Undefined('No first item, sequence was empty.'));
};

const last: Filter = (value, args, runtime) => {
  boundArguments('last', args);
  if (value instanceof Generator) throw new TemplateError("'generator' object is not reversible");
  return valueOr(
    listElements(value, runtime).at(-1),
    () => new Undefined('No last item, sequence was empty.'),
  );
};

const reverse: Filter = (value, args, runtime) => {
  boundArguments('reverse', args);
  if (isText(value)) return takeSlice(plain(value), [undefined, undefined, -1n], runtime);
  const items = listElements(value, runtime, 'argument must be iterable');
  const isLazy =
    isList(value) ||
    value instanceof Tuple ||
    value instanceof Dict ||
    value instanceof Range ||
    value instanceof DictView;
  const reversed = [...items].reverse();
  return isLazy ? new Generator(reversed) : reversed;
};

/** The filters of lists and dicts, keyed by name. */
export const sequenceFilters: Readonly<Record<string, Filter>> = {
  sort,
  dictsort,
  unique,
  sum,
  groupby,
  batch,
  slice,
  map,
  length,
  count: length,
  first,
  last,
  reverse,
  min: extreme('min', (one, best, runtime) => isLess(one, best, runtime)),
  max: extreme('max', (one, best, runtime) => isLess(best, one, runtime, '>')),
  select: selecting(true, false),
  reject: selecting(false, false),
  selectattr: selecting(true, true),
  rejectattr: selecting(false, true),
  list: (value, args, runtime) => {
    boundArguments('list', args);
    return isText(value) ? characters(plain(value), runtime) : [...listElements(value, runtime)];
  },
  items: (value, args) => {
    boundArguments('items', args);
    if (value instanceof Undefined) return new Generator([]);
    if (!(value instanceof Dict)) throw new TemplateError('Can only get item pairs from a mapping.');
    return new Generator(value.entries().map((entry) => new Tuple(entry)));
  },
};
