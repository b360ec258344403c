import { UsageError } from '@mtl/errors';

/** What JSON can hold without loss. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** Where and why `value` would not come back from JSON as it was, or undefined. */
function defectOf(value: unknown, path: string): string | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `${path} is ${value}`;
  if (typeof value !== 'object') return `${path} is a ${typeof value}`;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const defect = defectOf(value[index], `${path}[${index}]`);
      if (defect !== undefined) return defect;
    }
    return undefined;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return `${path} is a ${(value as object).constructor?.name ?? 'class instance'}`;
  }
  for (const [key, member] of Object.entries(value)) {
    const defect = defectOf(member, `${path}.${key}`);
    if (defect !== undefined) return defect;
  }
  return undefined;
}

/**
 * Makes sure that a checkpoint's state is data that JSON keeps: JSON.stringify would turn NaN into null and
 * drop undefined without a word, and a resume would go on with something else. (The sign of -0 is lost.)
 *
 * @throws UsageError MTL_CHECKPOINT_STATE naming the member
 */
export function checkJsonState(state: unknown): asserts state is JsonObject {
  const isObject = typeof state === 'object' && state !== null && !Array.isArray(state);
  const defect = isObject ? defectOf(state, 'state') : 'state is not an object';
  if (defect === undefined) return;
  throw new UsageError('MTL_CHECKPOINT_STATE', `a checkpoint cannot hold this state: ${defect}`, {
    expected: 'finite numbers, strings, booleans, null, arrays and plain objects',
    remedy: 'store large or binary values as tensors, bigints as strings, and leave absent members out',
  });
}
