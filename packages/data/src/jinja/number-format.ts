import type { Runtime } from './runtime.js';

/** Digits behind the decimal point that a float may be asked for. */
export const maximumPrecision = 10_000;

/** A float is `numerator / denominator`, exactly. */
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

/** The magnitude of a float times a power of ten as the nearest integer; of two as near, the even one. */
export function scaledInteger(value: number, power: number): bigint {
  let { numerator, denominator } = fraction(value);
  if (power >= 0) numerator *= 10n ** BigInt(power);
  else denominator *= 10n ** BigInt(-power);
  const whole = numerator / denominator;
  const twice = 2n * (numerator % denominator);
  const isUp = twice > denominator || (twice === denominator && whole % 2n === 1n);
  return isUp ? whole + 1n : whole;
}

/** The magnitude of a finite float with so many digits behind the decimal point. */
export function fixedText(value: number, precision: number, { budget }: Runtime): string {
  budget.characters(precision + 400);
  const digits = scaledInteger(value, precision)
    .toString()
    .padStart(precision + 1, '0');
  const point = digits.length - precision;
  return precision === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Digits of a magnitude, one of them before the decimal point, and the power of ten behind them. */
function scientific(
  value: number,
  precision: number,
): { readonly digits: string; readonly exponent: number } {
  if (value === 0) return { digits: '0'.repeat(precision + 1), exponent: 0 };
  let exponent = Number(Math.abs(value).toExponential().split('e')[1]);
  let digits = scaledInteger(value, precision - exponent).toString();
  // 9.99 becomes 10.0
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

/** The magnitude of a finite float as `1.25e+02`. */
export function exponentialText(value: number, precision: number, { budget }: Runtime): string {
  budget.characters(precision + 400);
  const { digits, exponent } = scientific(value, precision);
  return `${withPoint(digits, 1)}${exponentText(exponent)}`;
}

/** The magnitude of a finite float with so many digits in all, written the shorter way (`%g`). */
export function generalText(
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
