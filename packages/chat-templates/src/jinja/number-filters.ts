import { boundArguments, type Filter, integerArgument } from './arguments.js';
import { convertToFloat, isTrue, operate, signed } from './operations.js';
import { fixedText, scaledInteger } from './percent-format.js';
import { maximumDigits } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { strip } from './string-splits.js';
import { isText, plain, typeName, Undefined } from './values.js';

const both = { start: true, end: true };

/**
 * Converts decimal digits of other scripts to ASCII. In Unicode, the ten digits of a script are consecutive.
 */
const withAsciiDigits = (text: string): string =>
  text.replace(/(?![0-9])\p{Nd}/gu, (digit) => {
    const code = digit.codePointAt(0)!;
    let zero = code;
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
    return String((code - zero) % 10);
  });

/** Computes `int(text, base)`; undefined if the text is not an int. */
function parseInteger(text: string, base: number): bigint | undefined {
  const found = /^([+-]?)(0[bBoOxX]_?)?([0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*)$/.exec(strip(text, null, both));
  if (found === null) return undefined;
  const [, sign, prefix, rest] = found;
  const letter = prefix?.[1]?.toLowerCase();
  const ofPrefix = letter === undefined ? undefined : { b: 2, o: 8, x: 16 }[letter];
  let digits = rest!.replaceAll('_', '');
  let radix = base;
  if (ofPrefix !== undefined && (base === 0 || base === ofPrefix)) radix = ofPrefix;
  else if (prefix !== undefined) digits = prefix.replace('_', '') + digits;
  if (radix === 0) {
    if (/^0+[1-9]/.test(digits)) return undefined;
    radix = 10;
  }
  if (digits.length > maximumDigits && radix === 10) return undefined;
  let value = 0n;
  for (const digit of digits.toLowerCase()) {
    const number = Number.parseInt(digit, 36);
    if (number >= radix) return undefined;
    value = value * BigInt(radix) + BigInt(number);
  }
  return sign === '-' ? -value : value;
}

/** Computes `float(text)`; undefined if the text is not a number. */
function parseFloatText(text: string): number | undefined {
  const bare = strip(text, null, both);
  const named = /^([+-]?)(inf|infinity|nan)$/i.exec(bare);
  if (named !== null) {
    const value = named[2]!.toLowerCase() === 'nan' ? Number.NaN : Number.POSITIVE_INFINITY;
    return named[1] === '-' ? -value : value;
  }
  const digits = '\\d+(?:_\\d+)*';
  const pattern = new RegExp(`^[+-]?(?:${digits}\\.?(?:${digits})?|\\.${digits})(?:[eE][+-]?${digits})?$`);
  return pattern.test(bare) ? Number(bare.replaceAll('_', '')) : undefined;
}

function truncated(value: number): bigint {
  if (Number.isNaN(value)) throw new TemplateError('cannot convert float NaN to integer');
  if (!Number.isFinite(value)) throw new TemplateError('cannot convert float infinity to integer');
  return BigInt(Math.trunc(value));
}

const int: Filter = (value, args, { budget }) => {
  const [fallback = 0n, base] = boundArguments('int', args, ['default', 'base']);
  if (value instanceof Undefined) throw new TemplateError(value.message);
  if (typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return BigInt(value);
  // The filter returns its default for NaN and throws for infinity.
  if (typeof value === 'number') return Number.isNaN(value) ? fallback : truncated(value);
  if (!isText(value)) return fallback;
  const text = withAsciiDigits(plain(value));
  budget.characters(text.length + Math.min(text.length, maximumDigits) ** 2 / 16);
  const whole = parseInteger(text, integerArgument('int', base, 10));
  if (whole !== undefined) return whole;
  const float = parseFloatText(text);
  return float === undefined || !Number.isFinite(float) ? fallback : truncated(float);
};

const float: Filter = (value, args) => {
  const [fallback = 0] = boundArguments('float', args, ['default']);
  if (value instanceof Undefined) throw new TemplateError(value.message);
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint' || typeof value === 'boolean') return convertToFloat(value);
  return (isText(value) ? parseFloatText(withAsciiDigits(plain(value))) : undefined) ?? fallback;
};

const round: Filter = (value, args, runtime) => {
  const [precision, method = 'common'] = boundArguments('round', args, ['precision', 'method']);
  if (method !== 'common' && method !== 'ceil' && method !== 'floor') {
    throw new TemplateError('method must be common, ceil or floor');
  }
  const digits = integerArgument('round', precision, 0);
  if (value instanceof Undefined) throw new TemplateError(value.message);
  if (typeof value !== 'number' && typeof value !== 'bigint' && typeof value !== 'boolean') {
    throw new TemplateError(`type ${typeName(value)} doesn't define __round__ method`);
  }
  if (method === 'common') {
    return typeof value === 'number'
      ? roundedFloat(value, digits, runtime)
      : roundedInteger(BigInt(value), digits);
  }
  const scale = operate('**', 10n, BigInt(digits), runtime);
  const scaled = operate('*', value, scale, runtime);
  const change = method === 'ceil' ? Math.ceil : Math.floor;
  const whole = typeof scaled === 'number' ? truncated(change(scaled)) : scaled;
  return operate('/', whole, scale, runtime);
};

function roundedFloat(value: number, digits: number, runtime: Runtime): number {
  // No float has 400 digits after its decimal point, so rounding changes nothing. No float is as large as 10
  // ** 400, so rounding to a multiple of that gives 0.
  if (!Number.isFinite(value) || digits > 400) return value;
  if (digits < -400) return value < 0 || Object.is(value, -0) ? -0 : 0;
  const magnitude =
    digits >= 0
      ? Number(fixedText(value, digits, runtime))
      : Number(`${scaledInteger(value, digits)}e${-digits}`);
  if (!Number.isFinite(magnitude)) throw new TemplateError('rounded value too large to represent');
  return value < 0 || Object.is(value, -0) ? -magnitude : magnitude;
}

function roundedInteger(value: bigint, digits: number): bigint {
  if (digits >= 0) return value;
  const magnitude = value < 0n ? -value : value;
  if (-digits > magnitude.toString().length) return 0n;
  const unit = 10n ** BigInt(-digits);
  const twice = 2n * (magnitude % unit);
  const whole = magnitude / unit;
  const rounded = (whole + (twice > unit || (twice === unit && whole % 2n === 1n) ? 1n : 0n)) * unit;
  return value < 0n ? -rounded : rounded;
}

const abs: Filter = (value, args) => {
  boundArguments('abs', args);
  const isNegative =
    (typeof value === 'bigint' || typeof value === 'number') && (value < 0 || Object.is(value, -0));
  if (isNegative) return signed(value, 'negative');
  if (typeof value === 'boolean' || typeof value === 'bigint' || typeof value === 'number')
    return signed(value, 'positive');
  throw new TemplateError(
    value instanceof Undefined ? value.message : `bad operand type for abs(): '${typeName(value)}'`,
  );
};

const sizes = (isBinary: boolean) =>
  ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'].map((letter) =>
    isBinary ? `${letter.toUpperCase()}iB` : `${letter}B`,
  );

const filesizeformat: Filter = (value, args, runtime) => {
  const [binary = false] = boundArguments('filesizeformat', args, ['binary']);
  const bytes = float(value, { positional: [Number.NaN], named: new Map() }, runtime) as number;
  if (Number.isNaN(bytes)) throw new TemplateError('filesizeformat takes a number');
  const base = isTrue(binary) ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  const names = sizes(isTrue(binary));
  const place = names.findIndex((_, index) => bytes < base ** (index + 2));
  const index = place < 0 ? names.length - 1 : place;
  return `${fixedText((base * bytes) / base ** (index + 2), 1, runtime)} ${names[index]}`;
};

/** The filters of numbers, by name. */
export const numberFilters: Readonly<Record<string, Filter>> = {
  int,
  float,
  round,
  abs,
  filesizeformat,
};
