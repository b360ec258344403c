import { expect } from 'vitest';
import type { Device, DType } from '../../src/index.js';
import { disposeAll, makeTensors } from './case-tensors.js';
import { compareOutputs } from './compare-outputs.js';
import type { OpCase } from './op-case.js';

/** The dtypes that a case runs in. */
export function dtypesOf(opCase: OpCase): readonly DType[] {
  return opCase.dtypes ?? ['float32', 'bfloat16', 'float16'];
}

/**
 * Runs a case on a device and on the reference, on equal inputs; the outputs must agree within the case's
 * tolerance.
 */
export function checkParity(opCase: OpCase, dtype: DType, device: Device): void {
  const expected = makeTensors(opCase.tensors, { device: 'reference', dtype, seed: 7 });
  const actual = makeTensors(opCase.tensors, { device, dtype, seed: 7 });
  try {
    opCase.run(expected);
    opCase.run(actual);
    expect(compareOutputs(opCase, dtype, { actual, expected })).toBeUndefined();
  } finally {
    disposeAll(expected);
    disposeAll(actual);
  }
}
