import { boundArguments, type Filter } from './arguments.js';
import type { ComparisonOperator } from './nodes.js';
import { numberFilters } from './number-filters.js';
import { compare, isEqual, isIdentical, isTrue, operate } from './operations.js';
import { convertToText } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { sequenceFilters } from './sequence-filters.js';
import { isOfKind } from './string-case.js';
import { textFilters } from './text-filters.js';
import {
  type CallArguments,
  Dict,
  isList,
  isText,
  Markup,
  PythonObject,
  Range,
  Tuple,
  Undefined,
  type Value,
} from './values.js';

/** Computes `value | default(other)`. */
const defaultFilter: Filter = (value, args): Value => {
  const [fallback = '', boolean = false] = boundArguments('default', args, ['default_value', 'boolean']);
  return value instanceof Undefined || (isTrue(boolean) && !isTrue(value)) ? fallback : value;
};

const attr: Filter = (value, args, runtime) => {
  const [name] = boundArguments('attr', args, ['name'], 1);
  const text = convertToText(name!, runtime);
  // for this filter, the items of a dict are not attributes
  const isItem = value instanceof Dict && !['get', 'keys', 'values', 'items', 'copy'].includes(text);
  return isItem ? new Undefined(`'dict object' has no attribute '${text}'`) : runtime.attribute(value, text);
};

const xmlattr: Filter = (value, args, runtime) => {
  const [spaced = true] = boundArguments('xmlattr', args, ['autospace']);
  if (!(value instanceof Dict)) throw new TemplateError('xmlattr takes a dict');
  const escaped = textFilters.forceescape!;
  const attributes = value.entries().flatMap(([key, one]) => {
    if (one === null || one instanceof Undefined) return [];
    const name = convertToText(key, runtime);
    if (/[\s/>=]/.test(name)) throw new TemplateError(`Invalid character in attribute name: '${name}'`);
    const [left, right] = [key, one].map((part) => convertToText(escaped(part, none, runtime), runtime));
    return [`${left}="${right}"`];
  });
  return (spaced === true && attributes.length > 0 ? ' ' : '') + attributes.join(' ');
};

const none = { positional: [], named: new Map() };

/** Returns a filter that always throws. It replaces a Jinja filter that chat templates cannot use. */
const refused =
  (name: string, why: string): Filter =>
  () => {
    throw new TemplateError(`the filter '${name}' ${why}`);
  };

/** The filters of Jinja by their names. */
export const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...Object.entries(textFilters),
  ...Object.entries(sequenceFilters),
  ...Object.entries(numberFilters),
  ['default', defaultFilter],
  ['d', defaultFilter],
  ['attr', attr],
  ['xmlattr', xmlattr],
  ['random', refused('random', 'gives another result in each run')],
  ['pprint', refused('pprint', 'is for looking at values; tojson(indent=2) prints them')],
  ['urlize', refused('urlize', 'makes links of HTML')],
]);

/** A test: `value is name(args)`. */
type Test = (value: Value, args: CallArguments, runtime: Runtime) => boolean;

const alone =
  (name: string, passes: (value: Value, runtime: Runtime) => boolean): Test =>
  (value, args, runtime) => {
    boundArguments(name, args);
    return passes(value, runtime);
  };

const comparing =
  (operator: ComparisonOperator): Test =>
  (value, args, runtime) => {
    const [other] = boundArguments(operator, args, ['other'], 1);
    return compare(operator, value, other!, runtime);
  };

const rest = (value: Value, by: Value, runtime: Runtime): Value => operate('%', value, by, runtime);

const isIterable = (value: Value): boolean =>
  isText(value) ||
  isList(value) ||
  value instanceof Tuple ||
  value instanceof Dict ||
  (value instanceof PythonObject && value.elements !== undefined);

const isSequence = (value: Value): boolean =>
  isText(value) ||
  isList(value) ||
  value instanceof Tuple ||
  value instanceof Dict ||
  value instanceof Range ||
  value instanceof Undefined;

const isNumber = (value: Value): boolean =>
  typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean';

const named: Readonly<Record<string, (value: Value, runtime: Runtime) => boolean>> = {
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  integer: (value) => typeof value === 'bigint',
  float: (value) => typeof value === 'number',
  number: isNumber,
  string: isText,
  mapping: (value) => value instanceof Dict,
  sequence: isSequence,
  iterable: isIterable,
  callable: (value) =>
    value instanceof PythonObject && (value.call !== undefined || value instanceof Undefined),
  escaped: (value) => value instanceof Markup,
  lower: (value, runtime) => isOfKind('islower', convertToText(value, runtime))!,
  upper: (value, runtime) => isOfKind('isupper', convertToText(value, runtime))!,
  odd: (value, runtime) => isEqual(rest(value, 2n, runtime), 1n, runtime),
  even: (value, runtime) => isEqual(rest(value, 2n, runtime), 0n, runtime),
  filter: (value, runtime) => isText(value) && filters.has(convertToText(value, runtime)),
  test: (value, runtime) => isText(value) && tests.has(convertToText(value, runtime)),
};

/** The tests of Jinja by their names. */
export const tests: ReadonlyMap<string, Test> = new Map<string, Test>([
  ...Object.entries(named).map(([name, passes]) => [name, alone(name, passes)] as const),
  [
    'divisibleby',
    (value, args, runtime) => {
      const [by] = boundArguments('divisibleby', args, ['num'], 1);
      return isEqual(rest(value, by!, runtime), 0n, runtime);
    },
  ],
  ['sameas', (value, args) => isIdentical(value, boundArguments('sameas', args, ['other'], 1)[0]!)],
  ['in', (value, args, runtime) => compare('in', value, boundArguments('in', args, ['seq'], 1)[0]!, runtime)],
  ...(
    [
      ['==', ['==', 'eq', 'equalto']],
      ['!=', ['!=', 'ne']],
      ['>', ['>', 'gt', 'greaterthan']],
      ['>=', ['>=', 'ge']],
      ['<', ['<', 'lt', 'lessthan']],
      ['<=', ['<=', 'le']],
    ] as const
  ).flatMap(([operator, names]) => names.map((name) => [name, comparing(operator)] as const)),
]);
