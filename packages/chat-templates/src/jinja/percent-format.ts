import { floatText } from '../python/float-text.js';
import { convertToText, formatRepr, integerText, joined, softText } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import {
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
  valueOr,
} from './values.js';

const conversion = /%(?:\(([^)]*)\))?([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?[hlL]?(.)?/gsu;

interface Conversion {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | undefined;
  readonly type: string;
}

/**
 * Computes Python's `format % value`. A tuple has one value per conversion (`%s`); a dict has the values of
 * named conversions (`%(name)s`).
 */
export function formatPercent(format: string | Markup, value: Value, runtime: Runtime): string | Markup {
  const isHtml = format instanceof Markup;
  const values = value instanceof Tuple ? [...value.items] : [value];
  let used = 0;
  const next = (): Value => {
    if (used >= values.length) throw new TemplateError('not enough arguments for format string');
    return values[used++]!;
  };
  const size = (text: string | undefined): number | undefined => {
    if (text === undefined) return undefined;
    const number = text === '*' ? next() : BigInt(text === '' ? 0 : text);
    if (typeof number !== 'bigint') throw new TemplateError('* wants int');
    return Number(number);
  };
  const source = plain(format);
  const parts: string[] = [];
  let at = 0;
  let isNamed = false;
  for (const match of source.matchAll(conversion)) {
    const [whole, name, flags = '', width, precision, type] = match;
    parts.push(source.slice(at, match.index));
    at = match.index + whole.length;
    if (type === undefined) throw new TemplateError('incomplete format');
    let given = flags;
    let wide = size(width) ?? 0;
    // A width that is given as a value (`%*d`) may be negative; the text is then aligned to the left.
    if (wide < 0) [given, wide] = [`${flags}-`, -wide];
    const how = { flags: given, width: wide, precision: size(precision), type };
    if (type === '%') {
      parts.push('%');
      continue;
    }
    isNamed ||= name !== undefined;
    const one = name === undefined ? next() : named(value, name);
    parts.push(converted(isHtml ? asHtml(one, runtime) : one, how, runtime));
  }
  parts.push(source.slice(at));
  // As in Python, unused values are an error only in a tuple.
  const mayRemain = isNamed || value instanceof Dict || isList(value) || value instanceof Undefined;
  if (used < values.length && !mayRemain) {
    throw new TemplateError('not all arguments converted during string formatting');
  }
  const text = joined(parts, runtime);
  return isHtml ? new Markup(text) : text;
}

function asHtml(value: Value, runtime: Runtime): Value {
  return typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean'
    ? value
    : escapedHtml(softText(value, runtime));
}

function named(value: Value, name: string): Value {
  if (!(value instanceof Dict)) throw new TemplateError('format requires a mapping');
  return valueOr(value.get(name), () => missing(name));
}

const missing = (name: string): never => {
  throw new TemplateError(`'${name}'`);
};

function converted(value: Value, how: Conversion, runtime: Runtime): string {
  const { type, precision, flags, width } = how;
  if ('sra'.includes(type)) {
    const text = type === 's' ? convertToText(value, runtime) : formatRepr(value, runtime);
    const characters = type === 'a' ? asAscii(text) : text;
    return padded(
      '',
      precision === undefined ? characters : first(characters, precision),
      { flags: flags.replace('0', ''), width },
      runtime,
    );
  }
  if (type === 'c') return padded('', character(value), { flags: flags.replace('0', ''), width }, runtime);
  if ('diuoxX'.includes(type)) return integerConversion(value, how, runtime);
  if (!'eEfFgG'.includes(type)) throw new TemplateError(`unsupported format character '${type}'`);
  const number = convertToReal(value, type);
  const sign = number < 0 || Object.is(number, -0) ? '-' : plusSign(flags);
  const text = magnitudeText(Math.abs(number), { type, precision, keepsZeros: flags.includes('#') }, runtime);
  const hasDigits = Number.isFinite(number);
  return padded(sign, text, { flags: hasDigits ? flags : flags.replace('0', ''), width }, runtime);
}

/**
 * Returns the magnitude of a float as a string in one of the formats e, f and g, or their capital letters.
 */
export function magnitudeText(
  number: number,
  how: { readonly type: string; readonly precision: number | undefined; readonly keepsZeros: boolean },
  runtime: Runtime,
): string {
  const { type, precision = 6, keepsZeros } = how;
  if (precision > maximumPrecision) throw new TemplateError('precision too big');
  const lower = type.toLowerCase();
  let text: string;
  if (!Number.isFinite(number)) text = floatText(number);
  else if (lower === 'f') text = fixedText(number, precision, runtime);
  else if (lower === 'e') text = exponentialText(number, precision, runtime);
  else text = generalText(number, { precision, keepsZeros }, runtime);
  return type === lower ? text : text.toUpperCase();
}

const plusSign = (flags: string): string => (flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '');

function integerConversion(value: Value, how: Conversion, runtime: Runtime): string {
  const { type, flags, precision = 0 } = how;
  const isFloat = typeof value === 'number' && 'diu'.includes(type);
  if (isFloat && !Number.isFinite(value)) throw new TemplateError('cannot convert float to integer');
  const number = isFloat ? BigInt(Math.trunc(value)) : typeof value === 'boolean' ? BigInt(value) : value;
  if (typeof number !== 'bigint') {
    const kind = 'diu'.includes(type) ? 'a real number' : 'an integer';
    throw new TemplateError(`%${type} format: ${kind} is required, not ${typeName(value)}`);
  }
  const magnitude = number < 0n ? -number : number;
  const radix = { o: 8, x: 16, X: 16 }[type];
  let digits = radix === undefined ? integerText(magnitude, runtime) : magnitude.toString(radix);
  if (type === 'X') digits = digits.toUpperCase();
  runtime.budget.characters(precision);
  digits = digits.padStart(precision, '0');
  const prefix = flags.includes('#') && radix !== undefined ? `0${type}` : '';
  return padded((number < 0n ? '-' : plusSign(flags)) + prefix, digits, how, runtime);
}

function convertToReal(value: Value, type: string): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint' || typeof value === 'boolean') return Number(value);
  throw new TemplateError(
    isText(value) || value !== null
      ? `must be real number, not ${typeName(value)}`
      : `must be real number, not NoneType (%${type})`,
  );
}

function character(value: Value): string {
  if (typeof value === 'bigint' && value >= 0n && value <= 0x10ffffn)
    return String.fromCodePoint(Number(value));
  if (typeof value === 'string' && Array.from(value.slice(0, 3)).length === 1) return value;
  throw new TemplateError('%c requires int or char');
}

const first = (text: string, count: number): string => Array.from(text).slice(0, count).join('');

/** Returns `text` with all characters beyond ASCII escaped, as `ascii()` does. */
export function asAscii(text: string): string {
  return text.replace(/[\x80-\u{10ffff}]/gu, (one) => {
    const code = one.codePointAt(0)!;
    if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code <= 0xffff
      ? `\\u${code.toString(16).padStart(4, '0')}`
      : `\\U${code.toString(16).padStart(8, '0')}`;
  });
}

function padded(
  sign: string,
  text: string,
  { flags, width }: Pick<Conversion, 'flags' | 'width'>,
  { budget }: Runtime,
): string {
  const room = Math.max(0, width - sign.length - Array.from(text).length);
  budget.characters(room);
  if (flags.includes('-')) return sign + text + ' '.repeat(room);
  return flags.includes('0') ? sign + '0'.repeat(room) + text : ' '.repeat(room) + sign + text;
}

/** The maximum number of digits after a float's decimal point. */
const maximumPrecision = 10_000;

/** Returns the exact fraction of integers that equals the magnitude of a float. */
export function fraction(value: number): { readonly numerator: bigint; readonly denominator: bigint } {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, Math.abs(value));
  const bits = view.getBigUint64(0);
  const exponent = Number(bits >> 52n);
  const digits = (bits & ((1n << 52n) - 1n)) | (exponent === 0 ? 0n : 1n << 52n);
  const power = BigInt(Math.max(exponent, 1) - 1075);
  return power >= 0n
    ? { numerator: digits << power, denominator: 1n }
    : { numerator: digits, denominator: 1n << -power };
}

/**
 * Returns the magnitude of a float times 10 ** power, rounded to an integer. A tie is rounded to the even
 * integer.
 */
export function scaledInteger(value: number, power: number): bigint {
  let { numerator, denominator } = fraction(value);
  if (power >= 0) numerator *= 10n ** BigInt(power);
  else denominator *= 10n ** BigInt(-power);
  const whole = numerator / denominator;
  const twice = 2n * (numerator % denominator);
  const isUp = twice > denominator || (twice === denominator && whole % 2n === 1n);
  return isUp ? whole + 1n : whole;
}

/** Returns the magnitude of a finite float with `precision` digits after the decimal point. */
export function fixedText(value: number, precision: number, { budget }: Runtime): string {
  budget.characters(precision + 400);
  const digits = scaledInteger(value, precision)
    .toString()
    .padStart(precision + 1, '0');
  const point = digits.length - precision;
  return precision === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`;
}

/**
 * Returns the digits of a magnitude in scientific notation, and its exponent of ten. The first digit stands
 * before the decimal point.
 */
function scientific(
  value: number,
  precision: number,
): { readonly digits: string; readonly exponent: number } {
  if (value === 0) return { digits: '0'.repeat(precision + 1), exponent: 0 };
  let exponent = Number(Math.abs(value).toExponential().split('e')[1]);
  let digits = scaledInteger(value, precision - exponent).toString();
  // rounding 9.99 gives 10.0, which has one digit too many
  if (digits.length > precision + 1) {
    exponent += 1;
    digits = scaledInteger(value, precision - exponent).toString();
  }
  return { digits, exponent };
}

const withPoint = (digits: string, at: number): string =>
  at >= digits.length ? digits : `${digits.slice(0, at)}.${digits.slice(at)}`;

const exponentText = (exponent: number): string =>
  `e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;

/** Returns the magnitude of a finite float in the form `1.25e+02`. */
function exponentialText(value: number, precision: number, { budget }: Runtime): string {
  budget.characters(precision + 400);
  const { digits, exponent } = scientific(value, precision);
  return `${withPoint(digits, 1)}${exponentText(exponent)}`;
}

/**
 * Returns the magnitude of a finite float with `precision` significant digits, in the shorter form (`%g`).
 */
function generalText(
  value: number,
  options: { readonly precision: number; readonly keepsZeros: boolean },
  { budget }: Runtime,
): string {
  const precision = Math.max(options.precision, 1);
  budget.characters(precision + 400);
  const { digits, exponent } = scientific(value, precision - 1);
  const trimmed = (text: string) =>
    options.keepsZeros || !text.includes('.') ? text : text.replace(/\.?0+$/, '');
  if (exponent < -4 || exponent >= precision) return trimmed(withPoint(digits, 1)) + exponentText(exponent);
  if (exponent >= 0) return trimmed(withPoint(digits, exponent + 1));
  return trimmed(`0.${'0'.repeat(-exponent - 1)}${digits}`);
}
