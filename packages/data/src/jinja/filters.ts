import { boundArguments } from './arguments.js';
import type { Filter } from './filter.js';
import { defaultFilter, numberFilters } from './number-filters.js';
import { textOf } from './printing.js';
import { sequenceFilters } from './sequence-filters.js';
import { TemplateError } from './template-error.js';
import { textFilters } from './text-filters.js';
import { Dict, Undefined } from './values.js';

const attr: Filter = (value, args, runtime) => {
  const [name] = boundArguments('attr', args, ['name'], 1);
  const text = textOf(name!, runtime);
  // the items of a dict are no attributes
  const isItem = value instanceof Dict && !['get', 'keys', 'values', 'items', 'copy'].includes(text);
  return isItem ? new Undefined(`'dict object' has no attribute '${text}'`) : runtime.attribute(value, text);
};

const xmlattr: Filter = (value, args, runtime) => {
  const [spaced = true] = boundArguments('xmlattr', args, ['autospace']);
  if (!(value instanceof Dict)) throw new TemplateError('xmlattr takes a dict');
  const escaped = textFilters.forceescape!;
  const attributes = value.entries().flatMap(([key, one]) => {
    if (one === null || one instanceof Undefined) return [];
    const name = textOf(key, runtime);
    if (/[\s/>=]/.test(name)) throw new TemplateError(`Invalid character in attribute name: '${name}'`);
    const [left, right] = [key, one].map((part) => textOf(escaped(part, none, runtime), runtime));
    return [`${left}="${right}"`];
  });
  return (spaced === true && attributes.length > 0 ? ' ' : '') + attributes.join(' ');
};

const none = { positional: [], named: new Map() };

/** A filter that Jinja has and templates of conversations cannot use. */
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
