import { bytesPerElement } from '@mtl/kernels';
import type { Optimizer } from './optimizer.js';

/** Bytes of all states of an optimizer for one element of a parameter: 8 for AdamW. */
export function stateBytesPerElement({ states }: Pick<Optimizer, 'states'>): number {
  return states.reduce((sum, { dtype }) => sum + bytesPerElement(dtype), 0);
}
