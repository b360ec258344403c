import type { Parameter } from './parameter.js';

/** Those parameters of an operation whose gradients its weight half computes: given, and not frozen. */
export function trainedParameters(...parameters: readonly (Parameter | undefined)[]): Parameter[] {
  return parameters.filter((parameter) => parameter !== undefined).filter(({ isFrozen }) => !isFrozen);
}
