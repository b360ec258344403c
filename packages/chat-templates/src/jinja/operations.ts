import type { ArithmeticOperator, ComparisonOperator } from './nodes.js';
import { formatPercent, fraction } from './percent-format.js';
import { type Runtime, TemplateError } from './runtime.js';
import {
  Dict,
  DictView,
  escapedHtml,
  hashKey,
  isList,
  isText,
  Markup,
  PythonObject,
  plain,
  Range,
  Tuple,
  typeName,
  Undefined,
  UnhashableError,
  type Value,
} from './values.js';

/**
 * The maximum number of bits of an int. Operations on larger ints would be slow. Python already refuses to
 * print ints with a quarter of these bits.
 */
const maximumBits = 65_536;

/** Computes `bool(value)`. */
export function isTrue(value: Value): boolean {
  if (typeof value === 'boolean') return value;
  if (value === null) return false;
  if (typeof value === 'bigint') return value !== 0n;
  if (typeof value === 'number') return value !== 0;
  if (isText(value)) return plain(value) !== '';
  if (isList(value)) return value.length > 0;
  if (value instanceof Tuple) return value.items.length > 0;
  if (value instanceof Dict) return value.size > 0;
  return value.length === undefined || value.length() > 0;
}

const isNumber = (value: Value): value is boolean | bigint | number =>
  typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean';

/** Returns a bool as an int, as Python does in arithmetic. Returns other numbers unchanged. */
const convertNumber = (value: boolean | bigint | number): bigint | number =>
  typeof value === 'boolean' ? BigInt(value) : value;

/** Computes `left == right`. */
export function isEqual(left: Value, right: Value, runtime: Runtime): boolean {
  const { budget } = runtime;
  budget.step();
  if (isNumber(left) && isNumber(right)) return isSameNumber(convertNumber(left), convertNumber(right));
  if (isText(left) && isText(right)) {
    budget.characters(Math.min(plain(left).length, plain(right).length));
    return plain(left) === plain(right);
  }
  budget.enter();
  const result = isEqualInside(left, right, runtime);
  budget.leave();
  return result;
}

/** Returns true if an int and a float are exactly the same number. */
const isSameNumber = (left: bigint | number, right: bigint | number): boolean =>
  isOrdered(left, right) && !(left < right) && !(left > right);

function isEqualInside(left: Value, right: Value, runtime: Runtime): boolean {
  const itemwise = (a: readonly Value[], b: readonly Value[]) =>
    a.length === b.length && a.every((item, index) => isSame(item, b[index]!, runtime));
  if (isList(left)) return isList(right) && itemwise(left, right);
  if (left instanceof Tuple) return right instanceof Tuple && itemwise(left.items, right.items);
  if (left instanceof Undefined) return right instanceof Undefined;
  if (left instanceof Range && right instanceof Range)
    return itemwise(left.elements() as Value[], right.elements());
  if (
    left instanceof DictView &&
    right instanceof DictView &&
    left.kind === right.kind &&
    left.kind !== 'values'
  ) {
    return (
      left.length() === right.length() && [...left.elements()].every((one) => contains(right, one, runtime))
    );
  }
  if (!(left instanceof Dict)) return left === right;
  if (!(right instanceof Dict) || left.size !== right.size) return false;
  return left.entries().every(([key, value]) => {
    const other = right.get(key);
    return other !== undefined && isSame(value, other, runtime);
  });
}

/** Returns true if two elements of a container are equal. An object always equals itself here, even NaN. */
const isSame = (left: Value, right: Value, runtime: Runtime): boolean =>
  left === right || isEqual(left, right, runtime);

/** Returns true if `left < right`. The message of the error for values without an order names `operator`. */
export function isLess(left: Value, right: Value, runtime: Runtime, operator = '<'): boolean {
  runtime.budget.step();
  if (isNumber(left) && isNumber(right)) return convertNumber(left) < convertNumber(right);
  if (isText(left) && isText(right)) {
    runtime.budget.characters(Math.min(plain(left).length, plain(right).length));
    return compareTexts(plain(left), plain(right)) < 0;
  }
  const items = (value: Value) => (isList(value) ? value : value instanceof Tuple ? value.items : undefined);
  const [one, other] = [items(left), items(right)];
  if (one === undefined || other === undefined || isList(left) !== isList(right)) {
    for (const value of [left, right]) if (value instanceof Undefined) throw new TemplateError(value.message);
    throw new TemplateError(
      `'${operator}' not supported between instances of '${typeName(left)}' and '${typeName(right)}'`,
    );
  }
  const index = one.findIndex((item, at) => at >= other.length || !isSame(item, other[at]!, runtime));
  if (index < 0) return one.length < other.length;
  return index < other.length && isLess(one[index]!, other[index]!, runtime, operator);
}

/**
 * Compares strings by code points, as Python does. JavaScript compares UTF-16 units, whose order can differ.
 */
function compareTexts(left: string, right: string): number {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  if (at === left.length || at === right.length) return left.length - right.length;
  return left.codePointAt(at)! - right.codePointAt(at)!;
}

/** Computes `value in container`. */
function contains(container: Value, value: Value, runtime: Runtime): boolean {
  const { budget } = runtime;
  if (isText(container)) {
    const text = plain(container);
    if (!isText(value)) {
      throw new TemplateError(`'in <string>' requires string as left operand, not ${typeName(value)}`);
    }
    budget.characters(text.length);
    return text.includes(plain(value));
  }
  if (container instanceof Dict) return keyed(() => container.get(value)) !== undefined;
  const items = listElements(container, runtime, `argument of type '${typeName(container)}' is not iterable`);
  return items.some((item) => isSame(item, value, runtime));
}

/** Runs a look-up by key. If the key is not hashable, throws an error with Python's message. */
export function keyed<T>(look: () => T): T {
  try {
    return look();
  } catch (error) {
    throw error instanceof UnhashableError ? new TemplateError(error.message) : error;
  }
}

/** Makes a dict from entries, and counts the entries in the budget. */
export function makeDict(entries: Iterable<readonly [Value, Value]>, { budget }: Runtime): Dict {
  const all = [...entries];
  budget.step(8 * all.length);
  return keyed(() => Dict.of(all));
}

/** Returns the elements of a value that a loop would visit, in the order of the loop. */
export function listElements(
  value: Value,
  { budget }: Runtime,
  problem = `'${typeName(value)}' object is not iterable`,
): readonly Value[] {
  let elements: readonly Value[];
  if (isList(value)) elements = value;
  else if (value instanceof Tuple) elements = value.items;
  else if (value instanceof Dict) elements = value.keys();
  else if (isText(value)) {
    budget.characters(plain(value).length);
    budget.step(plain(value).length);
    elements = Array.from(plain(value));
  } else if (value instanceof PythonObject && value.elements !== undefined) {
    budget.step(value.length?.() ?? 0);
    elements = [...value.elements()];
  } else throw new TemplateError(problem);
  budget.step(elements.length);
  return elements;
}

/** Computes `left operator right`. */
export function compare(operator: ComparisonOperator, left: Value, right: Value, runtime: Runtime): boolean {
  switch (operator) {
    case '==':
      return isEqual(left, right, runtime);
    case '!=':
      return !isEqual(left, right, runtime);
    case '<':
      return isLess(left, right, runtime);
    case '>':
      return isOrdered(left, right) && isLess(right, left, runtime, operator);
    case '<=':
      return isOrdered(left, right) && !isLess(right, left, runtime, operator);
    case '>=':
      return isOrdered(left, right) && !isLess(left, right, runtime, operator);
    case 'in':
      return contains(right, left, runtime);
    case 'not in':
      return !contains(right, left, runtime);
  }
}

/** Returns true if two values have an order. NaN has no order, but a comparison with NaN is not an error. */
const isOrdered = (left: Value, right: Value): boolean =>
  !(isNumber(left) && isNumber(right) && (Number.isNaN(left) || Number.isNaN(right)));

/** Computes an arithmetic operation that `operator` names, such as `left + right`. */
export function operate(operator: ArithmeticOperator, left: Value, right: Value, runtime: Runtime): Value {
  if (operator === '%' && isText(left)) return formatPercent(left, right, runtime);
  for (const value of [left, right]) if (value instanceof Undefined) throw new TemplateError(value.message);
  if (isNumber(left) && isNumber(right))
    return calculate(operator, convertNumber(left), convertNumber(right), runtime);
  if (operator === '+') return add(left, right, runtime);
  if (operator === '*') {
    if (isNumber(right) && typeof right !== 'number') return repeat(left, right, runtime);
    if (isNumber(left) && typeof left !== 'number') return repeat(right, left, runtime);
  }
  throw unsupported(operator, left, right);
}

const unsupported = (operator: ArithmeticOperator, left: Value, right: Value): TemplateError =>
  new TemplateError(
    `unsupported operand type(s) for ${operator === '**' ? '** or pow()' : operator}: '${typeName(left)}' and '${typeName(right)}'`,
  );

function add(left: Value, right: Value, runtime: Runtime): Value {
  if (isText(left)) {
    if (isText(right)) return concatenate([left, right], runtime);
    throw new TemplateError(`can only concatenate str (not "${typeName(right)}") to str`);
  }
  if (isList(left)) {
    if (!isList(right)) {
      throw new TemplateError(`can only concatenate list (not "${typeName(right)}") to list`);
    }
    runtime.budget.step(left.length + right.length);
    return [...left, ...right];
  }
  if (left instanceof Tuple && right instanceof Tuple) {
    runtime.budget.step(left.items.length + right.items.length);
    return new Tuple([...left.items, ...right.items]);
  }
  throw unsupported('+', left, right);
}

/** Concatenates strings. If one of the strings is HTML already (`Markup`), the other strings are escaped. */
export function concatenate(texts: readonly (string | Markup)[], runtime: Runtime): string | Markup {
  const isHtml = texts.some((text) => text instanceof Markup);
  const parts = texts.map((text) => (isHtml ? escapedHtml(text) : plain(text)));
  // JavaScript shares the memory of the longest string instead of copying it, so the longest string is not
  // counted
  const lengths = parts.map(({ length }) => length);
  runtime.budget.characters(lengths.reduce((sum, one) => sum + one, 1) - Math.max(...lengths));
  let whole = '';
  for (const part of parts) whole += part;
  return isHtml ? new Markup(whole) : whole;
}

function repeat(value: Value, times: boolean | bigint, { budget }: Runtime): Value {
  const count = times === true ? 1n : times === false || times < 0n ? 0n : times;
  const copies = (length: number) => {
    // This size exceeds every budget.
    const total = count * BigInt(length) > 2n ** 40n ? 2 ** 40 : Number(count) * length;
    return { total, count: total === 0 ? 0 : total / length };
  };
  if (isText(value)) {
    const { total, count: number } = copies(plain(value).length);
    budget.characters(total);
    const text = plain(value).repeat(number);
    return value instanceof Markup ? new Markup(text) : text;
  }
  const items = isList(value) ? value : value instanceof Tuple ? value.items : undefined;
  if (items === undefined) {
    throw new TemplateError(`can't multiply sequence by non-int of type '${typeName(value)}'`);
  }
  const { total } = copies(items.length);
  budget.step(total);
  const repeated = Array.from({ length: total }, (_, index) => items[index % items.length]!);
  return isList(value) ? repeated : new Tuple(repeated);
}

function calculate(
  operator: ArithmeticOperator,
  left: bigint | number,
  right: bigint | number,
  runtime: Runtime,
): bigint | number {
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    const result = integers(operator, left, right);
    if (typeof result === 'bigint') {
      const bits = result.toString(16).length * 4;
      runtime.budget.characters(bits / 4);
      if (bits > maximumBits) throw new TemplateError(`makes an integer of more than ${maximumBits} bits`);
    }
    return result;
  }
  return floats(operator, convertToFloat(left), convertToFloat(right));
}

/** Computes `float(value)` of a number. */
export function convertToFloat(value: boolean | bigint | number): number {
  const float = Number(value);
  if (typeof value === 'bigint' && !Number.isFinite(float))
    throw new TemplateError('int too large to convert to float');
  return float;
}

function integers(operator: ArithmeticOperator, left: bigint, right: bigint): bigint | number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      if (right === 0n) throw new TemplateError('division by zero');
      return quotient(left, right);
    case '//':
    case '%': {
      if (right === 0n) throw new TemplateError('integer division or modulo by zero');
      const rest = left % right;
      const isOther = rest !== 0n && rest < 0n !== right < 0n;
      if (operator === '%') return isOther ? rest + right : rest;
      return left / right - (isOther ? 1n : 0n);
    }
    case '**':
      return power(left, right);
  }
}

function power(base: bigint, exponent: bigint): bigint | number {
  if (exponent < 0n) return floats('**', convertToFloat(base), convertToFloat(exponent));
  const bits = BigInt((base < 0n ? -base : base).toString(2).length);
  if (bits > 1n && bits * exponent > BigInt(maximumBits)) {
    throw new TemplateError(`makes an integer of more than ${maximumBits} bits`);
  }
  // for the bases 0, 1 and -1, the result depends only on whether the exponent is 0, odd or even
  return base ** (bits > 1n || exponent === 0n ? exponent : 2n - (exponent % 2n));
}

/** Returns the float nearest to a quotient of ints of any size. */
function quotient(left: bigint, right: bigint): number {
  const [a, b] = [Number(left), Number(right)];
  if (Number.isSafeInteger(a) && Number.isSafeInteger(b)) return a / b;
  const magnitude = computeQuotient(left < 0n ? -left : left, right < 0n ? -right : right);
  if (!Number.isFinite(magnitude)) throw new TemplateError('integer division result too large for a float');
  return left < 0n === right < 0n ? magnitude : -magnitude;
}

/** Returns the float nearest to a quotient of positive ints of any size. */
function computeQuotient(top: bigint, bottom: bigint): number {
  if (top === 0n) return 0;
  // the quotient with at least 66 bits; its last bit is set if there is a remainder, so that the rounding is
  // correct
  const shift = BigInt(66 + bottom.toString(2).length - top.toString(2).length);
  const [numerator, denominator] = shift > 0n ? [top << shift, bottom] : [top, bottom << -shift];
  const digits = (numerator / denominator) | (numerator % denominator === 0n ? 0n : 1n);
  // Two factors are needed: one power of two may exceed a float's range although the result does not.
  const half = Math.trunc(-Number(shift) / 2);
  return Number(digits) * 2 ** half * 2 ** (-Number(shift) - half);
}

function floats(operator: ArithmeticOperator, left: number, right: number): number {
  switch (operator) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
    case '/':
      if (right === 0) throw new TemplateError('float division by zero');
      return left / right;
    case '//':
    case '%': {
      if (right === 0)
        throw new TemplateError(operator === '%' ? 'float modulo' : 'float floor division by zero');
      const rest = left % right;
      const isOther = rest !== 0 && rest < 0 !== right < 0;
      const modulo = isOther ? rest + right : rest === 0 ? (right < 0 ? -0 : 0) : rest;
      if (operator === '%') return modulo;
      const exact = (left - rest) / right - (isOther ? 1 : 0);
      return exact === 0 ? (left / right < 0 || Object.is(left / right, -0) ? -0 : 0) : Math.round(exact);
    }
    case '**': {
      if (left === 0 && right < 0) throw new TemplateError('0.0 cannot be raised to a negative power');
      if (left < 0 && !Number.isInteger(right) && Number.isFinite(right) && Number.isFinite(left)) {
        throw new TemplateError('makes a complex number');
      }
      const result = left === 1 ? 1 : floatPower(left, right);
      if (!Number.isFinite(result) && Number.isFinite(left) && Number.isFinite(right)) {
        throw new TemplateError("(34, 'Numerical result out of range')");
      }
      return result;
    }
  }
}

/**
 * Computes a power. For small integer exponents, the result is exact. For other exponents, its last digit
 * depends on the JavaScript engine.
 */
function floatPower(base: number, exponent: number): number {
  if (!Number.isFinite(base) || base === 0 || !Number.isInteger(exponent) || Math.abs(exponent) > 64) {
    return base ** exponent;
  }
  const { numerator, denominator } = fraction(base);
  const power = BigInt(Math.abs(exponent));
  const [top, bottom] = [numerator ** power, denominator ** power];
  const magnitude = exponent < 0 ? computeQuotient(bottom, top) : computeQuotient(top, bottom);
  return base < 0 && exponent % 2 !== 0 ? -magnitude : magnitude;
}

/** Computes `-value` and `+value`. */
export function signed(value: Value, kind: 'negative' | 'positive'): Value {
  if (value instanceof Undefined) throw new TemplateError(value.message);
  if (!isNumber(value)) {
    throw new TemplateError(
      `bad operand type for unary ${kind === 'negative' ? '-' : '+'}: '${typeName(value)}'`,
    );
  }
  const number = convertNumber(value);
  return kind === 'negative' ? -number : number;
}

/** Computes Python's `left is right`: whether both values are the same object. */
export function isIdentical(left: Value, right: Value): boolean {
  if (typeof left === 'object' && left !== null) return left === right;
  return typeof left === typeof right && Object.is(left, right);
}

/** Returns the string that `hashKey` computes for a value: equal values have the same string. */
export const computeKey = (value: Value): string => keyed(() => hashKey(value));
