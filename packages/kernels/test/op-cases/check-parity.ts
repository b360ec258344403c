import { expect } from 'vitest';
import type { Device, DType } from '../../src/index.js';
import { disposeAll, makeTensors } from './case-tensors.js';
import { compareOutputs } from './compare-outputs.js';
import type { OpCase } from './op-case.js';

/** Returns the dtypes that a case runs in. */
export function listDtypes(opCase: OpCase): readonly DType[] {
  return opCase.dtypes ?? ['float32', 'bfloat16', 'float16'];
}

/** One of several ways in which a device computes. */
export interface WayToCompute {
  /** The name of the way in messages. */
  readonly name: string;
  /** Makes the device compute in this way from here on. */
  choose(): void;
}

/**
 * Runs a case on a device, in each of the ways given, and once on the reference, on equal inputs; the outputs
 * must agree within the case's tolerance.
 */
export function checkParity(
  opCase: OpCase,
  dtype: DType,
  device: Device,
  ways: readonly WayToCompute[] = [{ name: device, choose: () => {} }],
): void {
  const expected = makeTensors(opCase.tensors, { device: 'reference', dtype, seed: 7 });
  try {
    opCase.run(expected);
    for (const { name, choose } of ways) {
      choose();
      const actual = makeTensors(opCase.tensors, { device, dtype, seed: 7 });
      try {
        opCase.run(actual);
        expect(compareOutputs(opCase, dtype, { actual, expected }), name).toBeUndefined();
      } finally {
        disposeAll(actual);
      }
    }
  } finally {
    disposeAll(expected);
  }
}
