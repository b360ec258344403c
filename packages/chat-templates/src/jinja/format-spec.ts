import { floatText } from '../python/float-text.js';
import { asAscii, magnitudeText } from './percent-format.js';
import { convertToText, countCharacters, formatRepr, integerText, joined } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import { type CallArguments, isText, plain, typeName, Undefined, type Value } from './values.js';

const spec = /^(?:(.)?([<>=^]))?([-+ ])?(z)?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([a-zA-Z%])?$/su;

interface Spec {
  readonly fill: string;
  readonly align: string | undefined;
  readonly sign: string;
  readonly alternate: boolean;
  readonly width: number;
  readonly grouping: string | undefined;
  readonly precision: number | undefined;
  readonly type: string | undefined;
}

/** Computes Python's `format(value, text)`, where `text` is a format such as `>8.2f`. */
function formatValue(value: Value, text: string, runtime: Runtime): string {
  if (text === '') return convertToText(value, runtime);
  const found = spec.exec(text);
  if (found === null) throw invalid(text);
  const [, fill, align, sign = '-', , alternate, zero, width = '0', grouping, precision, type] = found;
  const isNumber = typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean';
  const how: Spec = {
    fill: fill ?? (zero === undefined ? ' ' : '0'),
    align: align ?? (zero !== undefined && isNumber ? '=' : undefined),
    sign,
    alternate: alternate !== undefined,
    width: Number(width),
    grouping,
    precision: precision === undefined ? undefined : Number(precision),
    type,
  };
  if (isText(value)) {
    if ((type ?? 's') !== 's' || how.align === '=' || grouping !== undefined || sign !== '-')
      throw invalid(text);
    const characters = plain(value);
    const cut =
      how.precision === undefined ? characters : Array.from(characters).slice(0, how.precision).join('');
    return aligned('', cut, { ...how, align: how.align ?? '<' }, runtime);
  }
  if (typeof value === 'number') return floatFormat(value, how, runtime);
  if (typeof value === 'bigint' || typeof value === 'boolean') {
    const number = BigInt(value);
    // Python formats a bool without a format type as the string `True` or `False`.
    if ('eEfFgG%'.includes(type ?? 'd')) return floatFormat(Number(number), how, runtime);
    return integerFormat(number, how, { text, runtime });
  }
  throw new TemplateError(`unsupported format string passed to ${typeName(value)}.__format__`);
}

const invalid = (text: string): TemplateError => new TemplateError(`Invalid format specifier '${text}'`);

function integerFormat(
  value: bigint,
  how: Spec,
  { text, runtime }: { readonly text: string; readonly runtime: Runtime },
): string {
  const { type = 'd', precision, grouping } = how;
  if (precision !== undefined) throw new TemplateError('Precision not allowed in integer format specifier');
  if (type === 'c')
    return aligned('', String.fromCodePoint(Number(value)), { ...how, align: how.align ?? '<' }, runtime);
  const radix = { d: 10, n: 10, b: 2, o: 8, x: 16, X: 16 }[type];
  if (radix === undefined) throw invalid(text);
  const magnitude = value < 0n ? -value : value;
  let digits = radix === 10 ? integerText(magnitude, runtime) : magnitude.toString(radix);
  if (type === 'X') digits = digits.toUpperCase();
  const prefix = how.alternate && radix !== 10 ? `0${type}` : '';
  const sign = formatSign(value < 0n, how) + prefix;
  return aligned(sign, grouped(digits, grouping, radix === 10 ? 3 : 4), how, runtime);
}

const formatSign = (isNegative: boolean, { sign }: Spec): string =>
  isNegative ? '-' : sign === '-' ? '' : sign;

function floatFormat(value: number, how: Spec, runtime: Runtime): string {
  const { type, precision, alternate: keepsZeros, grouping } = how;
  const isNegative = value < 0 || Object.is(value, -0);
  const magnitude = Math.abs(value);
  let text: string;
  if (type === '%') {
    text = `${magnitudeText(magnitude * 100, { type: 'f', precision, keepsZeros }, runtime)}%`;
  } else if (type === undefined && precision === undefined) text = floatText(magnitude);
  else if (type === undefined) {
    text = magnitudeText(magnitude, { type: 'g', precision, keepsZeros }, runtime);
    // without a format type, a float has at least one digit after its decimal point
    if (/^\d+$/.test(text)) {
      text =
        text.length >= Math.max(precision ?? 0, 1)
          ? formatExponent(magnitude, precision!, runtime)
          : `${text}.0`;
    }
  } else if ('eEfFgGn'.includes(type)) {
    text = magnitudeText(magnitude, { type: type === 'n' ? 'g' : type, precision, keepsZeros }, runtime);
  } else throw new TemplateError(`Unknown format code '${type}' for object of type 'float'`);
  const [, whole, rest] = /^(\d*)(.*)$/.exec(text)!;
  return aligned(formatSign(isNegative, how), grouped(whole!, grouping, 3) + rest!, how, runtime);
}

const formatExponent = (magnitude: number, precision: number, runtime: Runtime): string =>
  magnitudeText(
    magnitude,
    { type: 'e', precision: Math.max(precision, 1) - 1, keepsZeros: false },
    runtime,
  ).replace(/\.?0+e/, 'e');

const grouped = (digits: string, separator: string | undefined, size: number): string =>
  separator === undefined ? digits : digits.replace(new RegExp(`\\B(?=(?:\\w{${size}})+$)`, 'g'), separator);

function aligned(sign: string, text: string, how: Spec, runtime: Runtime): string {
  const room = Math.max(0, how.width - sign.length - countCharacters(text, runtime));
  runtime.budget.characters(room * how.fill.length);
  const fill = (count: number) => how.fill.repeat(count);
  switch (how.align ?? '>') {
    case '<':
      return sign + text + fill(room);
    case '^':
      return fill(room >> 1) + sign + text + fill(room - (room >> 1));
    case '=':
      if (how.grouping !== undefined && how.fill === '0' && room > 0)
        return sign + zeroGrouped(text, how, sign);
      return sign + fill(room) + text;
    default:
      return fill(room) + sign + text;
  }
}

/**
 * Pads a number with zeros to its width; the separators between digits also stand between the zeros: `0,012`.
 */
function zeroGrouped(text: string, { width, grouping }: Spec, sign: string): string {
  const [, whole, rest] = /^([\d,_]*)(.*)$/.exec(text)!;
  let digits = whole!.replaceAll(grouping!, '');
  let padded = whole!;
  while (sign.length + padded.length + rest!.length < width) {
    digits = `0${digits}`;
    padded = grouped(digits, grouping, 3);
  }
  return padded + rest;
}

/** Computes Python's `text.format(*args, **named)`. */
export function formatText(text: string, args: CallArguments, runtime: Runtime): string {
  return new Formatter(args, runtime).format(text, 2);
}

class Formatter {
  readonly #args: CallArguments;
  readonly #runtime: Runtime;
  /**
   * The index for the next field that has neither a name nor an index. Undefined once the format has used an
   * explicit index.
   */
  #next: number | undefined = 0;

  constructor(args: CallArguments, runtime: Runtime) {
    this.#args = args;
    this.#runtime = runtime;
  }

  format(text: string, depth: number): string {
    if (depth === 0) throw new TemplateError('Max string recursion exceeded');
    const parts: string[] = [];
    for (let at = 0; at < text.length; ) {
      const next = text.slice(at).search(/[{}]/);
      const brace = next < 0 ? text.length : at + next;
      parts.push(text.slice(at, brace));
      if (brace === text.length) break;
      if (text[brace + 1] === text[brace]) {
        parts.push(text[brace]!);
        at = brace + 2;
      } else {
        if (text[brace] === '}') throw new TemplateError("Single '}' encountered in format string");
        const end = endOfField(text, brace);
        parts.push(this.#field(text.slice(brace + 1, end), depth));
        at = end + 1;
      }
    }
    return joined(parts, this.#runtime);
  }

  #field(field: string, depth: number): string {
    const [, path, conversion, how = ''] = /^([^!:]*(?:\[[^\]]*\][^!:]*)*)(?:!([^:]*))?(?::(.*))?$/su.exec(
      field,
    )!;
    const value = this.#findValue(path!);
    const text = this.format(how, depth - 1 || (how.includes('{') ? 0 : 1));
    const runtime = this.#runtime;
    if (conversion === undefined) return formatValue(value, text, runtime);
    if (!['s', 'r', 'a'].includes(conversion))
      throw new TemplateError(`Unknown conversion specifier ${conversion}`);
    const printed = conversion === 's' ? convertToText(value, runtime) : formatRepr(value, runtime);
    return formatValue(conversion === 'a' ? asAscii(printed) : printed, text, runtime);
  }

  #findValue(path: string): Value {
    const [, first, rest] = /^([^.[]*)(.*)$/su.exec(path)!;
    let value = this.#argument(first!);
    const steps = /\.([^.[]+)|\[([^\]]+)\]/gu;
    for (const [, attribute, item] of rest!.matchAll(steps)) {
      if (value instanceof Undefined) throw new TemplateError(value.message);
      value =
        attribute === undefined
          ? this.#runtime.item(value, /^\d+$/.test(item!) ? BigInt(item!) : item!)
          : this.#runtime.attribute(value, attribute);
    }
    return value;
  }

  #argument(name: string): Value {
    const { positional, named } = this.#args;
    if (name !== '' && !/^\d+$/.test(name)) {
      const value = named.get(name);
      if (value === undefined) throw new TemplateError(`'${name}'`);
      return value;
    }
    if (name === '' && this.#next === undefined) {
      throw new TemplateError('cannot switch from manual field specification to automatic field numbering');
    }
    const index = name === '' ? this.#next! : Number(name);
    this.#next = name === '' ? index + 1 : undefined;
    const value = positional[index];
    if (value === undefined) {
      throw new TemplateError(`Replacement index ${index} out of range for positional args tuple`);
    }
    return value;
  }
}

function endOfField(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    if (text[at] === '{') depth += 1;
    else if (text[at] === '}' && --depth === 0) return at;
  }
  throw new TemplateError("expected '}' before end of string");
}
