import { boundArguments } from './arguments.js';
import { isEqual, keyed } from './operations.js';
import { characters, formatRepr, isPlane0 } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { stringMethod } from './string-methods.js';
import {
  type CallArguments,
  Dict,
  DictView,
  Group,
  isList,
  isText,
  Markup,
  PythonFunction,
  PythonObject,
  plain,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
  valueOr,
} from './values.js';

// Python methods that change their object. Jinja's sandbox forbids them in templates.
const changing = {
  dict: ['clear', 'pop', 'popitem', 'setdefault', 'update'],
  list: ['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove'],
};

/** Returns the Undefined value for an attribute that templates may not read. */
const unsafe = (value: Value, name: string): Undefined =>
  new Undefined(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);

/** Computes `value.name`: the attribute, or the item if there is no such attribute. */
export function resolveAttribute(value: Value, name: string, runtime: Runtime): Value {
  runtime.budget.step();
  const missing = () => new Undefined(`'${objectName(value)}' has no attribute '${name}'`);
  return valueOr(attribute(value, name, runtime), () => valueOr(item(value, name, runtime), missing));
}

/** Computes `value[key]`: the item, or the attribute if there is no such item. */
export function resolveItem(value: Value, key: Value, runtime: Runtime): Value {
  runtime.budget.step();
  if (value instanceof Undefined) throw new TemplateError(value.message);
  const found = item(value, key, runtime);
  if (found !== undefined) return found;
  if (!isText(key)) return new Undefined(`${objectName(value)} has no element ${formatRepr(key, runtime)}`);
  return valueOr(
    attribute(value, plain(key), runtime),
    () => new Undefined(`'${objectName(value)}' has no attribute '${plain(key)}'`),
  );
}

function objectName(value: Value): string {
  if (value === null) return 'None';
  const own = value instanceof Markup ? 'markupsafe.Markup' : typeName(value);
  return `${value instanceof PythonObject && !(value instanceof Range || value instanceof DictView) ? `jinja2.${own}` : own} object`;
}

function attribute(value: Value, name: string, runtime: Runtime): Value | undefined {
  if (value instanceof Undefined) {
    if (name.startsWith('__') && name.endsWith('__')) return undefined;
    throw new TemplateError(value.message);
  }
  if (value instanceof PythonObject) {
    const own = value.attribute?.(name);
    if (own !== undefined || !name.startsWith('__')) return own;
  }
  if (name.startsWith('__')) return hasInternal(name) ? unsafe(value, name) : undefined;
  if (isText(value)) return stringMethod(value, name, runtime);
  if (value instanceof Dict) {
    return changing.dict.includes(name) ? unsafe(value, name) : dictMethod(value, name, runtime);
  }
  if (isList(value)) {
    if (changing.list.includes(name)) return unsafe(value, name);
    if (name === 'copy') return new PythonFunction('copy', () => value);
    return sequenceMethod(value, { of: value, name }, runtime);
  }
  if (value instanceof Group && (name === 'grouper' || name === 'list')) {
    return value.items[name === 'list' ? 1 : 0];
  }
  if (value instanceof Tuple) return sequenceMethod(value.items, { of: value, name }, runtime);
  if (typeof value === 'number') return floatAttribute(value, name);
  if (typeof value === 'bigint' || typeof value === 'boolean') return integerAttribute(BigInt(value), name);
  return undefined;
}

/** Returns true if `name` is an attribute that all Python objects have. */
const hasInternal = (name: string): boolean =>
  [
    '__class__',
    '__doc__',
    '__init__',
    '__dict__',
    '__eq__',
    '__hash__',
    '__len__',
    '__repr__',
    '__str__',
  ].includes(name);

function dictMethod(dict: Dict, name: string, runtime: Runtime): Value | undefined {
  switch (name) {
    case 'get':
      return new PythonFunction('get', (args) => {
        const [key, fallback = null] = boundArguments('get', args, ['key', 'default'], 1);
        return valueOr(
          keyed(() => dict.get(key!)),
          () => fallback,
        );
      });
    case 'keys':
    case 'values':
    case 'items':
      return new PythonFunction(name, (args) => {
        boundArguments(name, args, [], 0);
        return new DictView(dict, name);
      });
    case 'copy':
      return new PythonFunction('copy', () => {
        runtime.budget.step(dict.size);
        return dict;
      });
    default:
      return undefined;
  }
}

function sequenceMethod(
  items: readonly Value[],
  { of, name }: { readonly of: Value; readonly name: string },
  runtime: Runtime,
): Value | undefined {
  const matching = (args: CallArguments): readonly number[] => {
    const [sought] = boundArguments(name, args, ['value'], 1);
    return items.flatMap((one, index) => (isEqual(one, sought!, runtime) ? [index] : []));
  };
  if (name === 'count') return new PythonFunction(name, (args) => BigInt(matching(args).length));
  if (name !== 'index') return undefined;
  return new PythonFunction(name, (args) => {
    const [index] = matching(args);
    if (index !== undefined) return BigInt(index);
    throw new TemplateError(
      isList(of)
        ? `${formatRepr(args.positional[0]!, runtime)} is not in list`
        : 'tuple.index(x): x not in tuple',
    );
  });
}

function floatAttribute(value: number, name: string): Value | undefined {
  if (name === 'real') return value;
  if (name === 'imag') return 0;
  return name === 'is_integer' ? new PythonFunction(name, () => Number.isInteger(value)) : undefined;
}

function integerAttribute(value: bigint, name: string): Value | undefined {
  if (name === 'real' || name === 'numerator') return value;
  if (name === 'imag') return 0n;
  if (name === 'denominator') return 1n;
  if (name !== 'bit_length') return undefined;
  const magnitude = value < 0n ? -value : value;
  return new PythonFunction(name, () => BigInt(magnitude === 0n ? 0 : magnitude.toString(2).length));
}

function item(value: Value, key: Value, runtime: Runtime): Value | undefined {
  if (value instanceof Dict) return hashable(() => value.get(key));
  const index = typeof key === 'boolean' ? BigInt(key) : key;
  if (typeof index !== 'bigint') return undefined;
  if (isText(value)) {
    const one = characterAt(plain(value), index, runtime);
    return one !== undefined && value instanceof Markup ? new Markup(one) : one;
  }
  const items = isList(value) ? value : value instanceof Tuple ? value.items : undefined;
  if (items !== undefined) return items[Number(index < 0n ? index + BigInt(items.length) : index)];
  if (!(value instanceof Range)) return undefined;
  const at = Number(index < 0n ? index + BigInt(value.count) : index);
  return at >= 0 && at < value.count ? value.at(at) : undefined;
}

/**
 * Runs a look-up. Returns undefined for a key that is not hashable, because Jinja treats such a key as
 * missing.
 */
function hashable<T>(look: () => T): T | undefined {
  try {
    return keyed(look);
  } catch (error) {
    if (error instanceof TemplateError) return undefined;
    throw error;
  }
}

function characterAt(text: string, index: bigint, runtime: Runtime): string | undefined {
  const at = Number(index);
  // The first character can be found without splitting the text into characters.
  if (at === 0) return text === '' ? undefined : String.fromCodePoint(text.codePointAt(0)!);
  if (at >= text.length || -at > text.length) return undefined;
  runtime.budget.characters(text.length);
  if (isPlane0(text)) return text.at(at);
  return characters(text, runtime).at(at);
}
