import { PythonFloat } from '../python/python-json.js';

/**
 * A Python value in a template: an int is a bigint, a float a number, a str a string, None null, and a list
 * an array. Values never change, except for the attributes of a namespace.
 */
export type Value =
  | null
  | boolean
  | bigint
  | number
  | string
  | readonly Value[]
  | Markup
  | Tuple
  | Dict
  | PythonObject;

/**
 * A str that is HTML already (`| safe`). As in Python's markupsafe, a str that is not HTML is escaped when it
 * is joined to such a str.
 */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A tuple as in Python. */
export class Tuple {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** Arguments of a call. */
export interface CallArguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

/** A Python object, such as a function or a range. */
export abstract class PythonObject {
  /** The type name that Python's messages use for the value. */
  abstract readonly typeName: string;
  /**
   * Returns Python's `repr` of the object. Undefined if the `repr` would contain a memory address, which
   * differs from run to run.
   */
  readonly repr?: (formatRepr: (value: Value) => string) => string;
  readonly length?: () => number;
  readonly elements?: () => Iterable<Value>;
  readonly attribute?: (name: string) => Value | undefined;
  readonly call?: (args: CallArguments) => Value;
}

/** A function that templates call. */
export class PythonFunction extends PythonObject {
  readonly typeName = 'function';
  readonly name: string;
  override readonly call: (args: CallArguments) => Value;
  constructor(name: string, call: (args: CallArguments) => Value) {
    super();
    this.name = name;
    this.call = call;
  }
}

/** A missing value. It prints as an empty string and counts as false; most other uses are errors. */
export class Undefined extends PythonObject {
  readonly typeName = 'Undefined';
  /** The message of the error that is thrown when the value is used. */
  readonly message: string;
  constructor(message: string) {
    super();
    this.message = message;
  }
  override readonly repr = () => 'Undefined';
  override readonly length = () => 0;
  override readonly elements = () => [];
}

/** The result of filters such as `map`. Its elements can be read once. */
export class Generator extends PythonObject {
  readonly typeName = 'generator';
  readonly #iterator: Iterator<Value>;
  constructor(values: Iterable<Value>) {
    super();
    this.#iterator = values[Symbol.iterator]();
  }
  override readonly elements = (): Iterable<Value> => {
    const iterator = this.#iterator;
    return { [Symbol.iterator]: () => ({ next: () => iterator.next() }) };
  };
}

/** A range as in Python: whole numbers in equal steps. */
export class Range extends PythonObject {
  readonly typeName = 'range';
  readonly start: bigint;
  readonly stop: bigint;
  readonly by: bigint;
  readonly count: number;
  constructor(range: {
    readonly start: bigint;
    readonly stop: bigint;
    readonly by: bigint;
    readonly count: number;
  }) {
    super();
    this.start = range.start;
    this.stop = range.stop;
    this.by = range.by;
    this.count = range.count;
  }
  at(index: number): bigint {
    return this.start + BigInt(index) * this.by;
  }
  override readonly length = () => this.count;
  override readonly elements = () => Array.from({ length: this.count }, (_, index) => this.at(index));
  override readonly repr = () =>
    this.by === 1n ? `range(${this.start}, ${this.stop})` : `range(${this.start}, ${this.stop}, ${this.by})`;
}

/** The result of `dict.keys()`, `.values()` or `.items()`. */
export class DictView extends PythonObject {
  readonly typeName: string;
  readonly dict: Dict;
  readonly kind: 'keys' | 'values' | 'items';
  constructor(dict: Dict, kind: 'keys' | 'values' | 'items') {
    super();
    this.dict = dict;
    this.kind = kind;
    this.typeName = `dict_${kind}`;
  }
  override readonly length = () => this.dict.size;
  override readonly elements = (): readonly Value[] =>
    this.dict
      .entries()
      .map((entry) => (this.kind === 'items' ? new Tuple(entry) : entry[this.kind === 'keys' ? 0 : 1]));
  override readonly repr = (formatRepr: (value: Value) => string) =>
    `${this.typeName}(${formatRepr([...this.elements()])})`;
}

/** An object whose attributes a template may set. */
export class Namespace extends PythonObject {
  readonly typeName = 'Namespace';
  readonly attributes: Map<string, Value>;
  constructor(attributes: Map<string, Value>) {
    super();
    this.attributes = attributes;
  }
  override readonly attribute = (name: string) => this.attributes.get(name);
  override readonly repr = (formatRepr: (value: Value) => string) =>
    `<Namespace ${formatRepr(Dict.of([...this.attributes]))}>`;
}

/**
 * A Python dict. Keys that are equal in Python (1, 1.0 and True) are one key. Keys have the order of their
 * first use.
 */
export class Dict {
  readonly #entries: ReadonlyMap<string, readonly [Value, Value]>;

  private constructor(entries: ReadonlyMap<string, readonly [Value, Value]>) {
    this.#entries = entries;
  }

  /**
   * Makes a dict.
   * @throws UnhashableError for keys that are lists or dicts
   */
  static of(entries: Iterable<readonly [Value, Value]>): Dict {
    const byKey = new Map<string, readonly [Value, Value]>();
    for (const [key, value] of entries) {
      const name = hashKey(key);
      byKey.set(name, [byKey.get(name)?.[0] ?? key, value]);
    }
    return new Dict(byKey);
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: Value): Value | undefined {
    return this.#entries.get(hashKey(key))?.[1];
  }

  keys(): readonly Value[] {
    return Array.from(this.#entries.values(), ([key]) => key);
  }

  entries(): readonly (readonly [Value, Value])[] {
    return [...this.#entries.values()];
  }
}

const identities = new WeakMap<object, number>();
let numIdentities = 0;

/**
 * Returns a string that identifies a dict key: two values have the same string if and only if Python treats
 * them as the same key.
 * @throws UnhashableError for lists and dicts
 */
export function hashKey(value: Value): string {
  if (typeof value === 'string') return `s${value}`;
  if (value instanceof Markup) return `s${value.text}`;
  if (value === null) return 'N';
  if (typeof value === 'boolean') return value ? 'n1' : 'n0';
  if (typeof value === 'bigint') return `n${value}`;
  if (typeof value === 'number') return Number.isInteger(value) ? `n${BigInt(value)}` : `f${value}`;
  if (value instanceof Tuple) {
    const keys = value.items.map(hashKey);
    return `t${keys.map((key) => `${key.length}:${key}`).join('')}`;
  }
  if (value instanceof Undefined) return 'U';
  if (Array.isArray(value) || value instanceof Dict || value instanceof Namespace) {
    throw new UnhashableError(typeName(value));
  }
  let identity = identities.get(value as object);
  if (identity === undefined) {
    identity = numIdentities++;
    identities.set(value as object, identity);
  }
  return `o${identity}`;
}

/** The error for a list or dict that is used as a key. */
export class UnhashableError extends Error {
  constructor(type: string) {
    super(`unhashable type: '${type}'`);
  }
}

export const isList = (value: Value): value is readonly Value[] => Array.isArray(value);

/** Returns true if a value is a str, either plain or HTML. */
export const isText = (value: Value): value is string | Markup =>
  typeof value === 'string' || value instanceof Markup;

/**
 * Returns `value`, or `other()` if `value` is undefined. The operator `??` would also replace None (null).
 */
export const valueOr = (value: Value | undefined, other: () => Value): Value =>
  value === undefined ? other() : value;

/**
 * An element of the result of `groupby`: a tuple whose elements are also its attributes `grouper` and `list`.
 */
export class Group extends Tuple {
  constructor(grouper: Value, list: Value) {
    super([grouper, list]);
  }
}

/** Returns `text` as a string, also if it is HTML (`Markup`). */
export const plain = (text: string | Markup): string => (typeof text === 'string' ? text : text.text);

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Returns `text` as HTML: escaped, unless it counts as HTML already. */
export const escapedHtml = (text: string | Markup): string =>
  text instanceof Markup ? text.text : text.replace(/[&<>'"]/g, (character) => entities[character]!);

/** Returns the type name that Python's messages use for the value. */
export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'bigint') return 'int';
  if (typeof value === 'number') return 'float';
  if (typeof value === 'string') return 'str';
  if (value instanceof Markup) return 'Markup';
  if (value instanceof Tuple) return 'tuple';
  if (value instanceof Dict) return 'dict';
  return value instanceof PythonObject ? value.typeName : 'list';
}

/**
 * Converts a JavaScript value to a value in a template. Whole numbers and bigints become ints; other numbers
 * and `PythonFloat` become floats; objects and maps become dicts; undefined becomes None.
 * @throws TypeError for functions and symbols
 */
export function toValue(value: unknown): Value {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'bigint') return value;
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : value;
  if (value instanceof PythonFloat) return value.value;
  if (Array.isArray(value)) return value.map(toValue);
  if (typeof value !== 'object') throw new TypeError(`a ${typeof value} has no text in a template`);
  const entries =
    value instanceof Map ? [...value] : Object.entries(value).filter(([, one]) => one !== undefined);
  return Dict.of(entries.map(([key, one]) => [toValue(key), toValue(one)]));
}
