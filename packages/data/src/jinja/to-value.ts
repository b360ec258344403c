import { PythonFloat } from '../python/json.js';
import { Dict, type Value } from './values.js';

/**
 * A value of JavaScript as a template has it: a whole number is an int, another one and a `PythonFloat` a
 * float, a bigint an int, an object or a map a dict; undefined is None.
 *
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
