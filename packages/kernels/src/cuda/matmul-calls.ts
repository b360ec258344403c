import type { DType } from '../dtype.js';
import { addon } from '../native/addon.js';
import type { OperationObserver } from '../run-operation.js';

/** What an algorithm for a matmul depends on, of one tensor. */
export interface MatmulOperand {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The largest power of two, up to 256, that divides its address. */
  readonly alignment: number;
}

/** An operation that cuBLASLt computes on device `cuda`, with all that its algorithm depends on. */
export interface MatmulCall {
  readonly name: string;
  readonly tensors: Readonly<Record<string, MatmulOperand>>;
  readonly attributes: Readonly<Record<string, number | boolean>>;
}

/** What cuBLASLt computes, alone or in part; the others never call it. */
const matmulOperations: readonly string[] = [
  'matmul',
  'linear_gelu_forward',
  'linear_gelu_backward',
  'linear_residual_forward',
  'linear_weight_gradient',
];

/**
 * Listens to operations (`observeOperations`) and keeps the matmuls, each once, also those of device
 * `meta-cuda`: for `timeMatmuls`.
 */
export class MatmulCalls implements Iterable<MatmulCall> {
  readonly #calls = new Map<string, MatmulCall>();

  readonly observe: OperationObserver = (name, operands) => {
    if (!matmulOperations.includes(name)) return;
    const tensors: Record<string, MatmulOperand> = {};
    const attributes: Record<string, number | boolean> = {};
    for (const [operand, value] of Object.entries(operands)) {
      if (value === undefined) continue;
      if (typeof value !== 'object') attributes[operand] = value;
      else {
        const { shape, dtype, handle } = value;
        tensors[operand] = { shape, dtype, alignment: addon().alignmentOf(handle) };
      }
    }
    const call = { name, tensors, attributes };
    this.#calls.set(JSON.stringify(call), call);
  };

  [Symbol.iterator](): Iterator<MatmulCall> {
    return this.#calls.values();
  }
}
