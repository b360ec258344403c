import type { LayerShape } from './model-size.js';
import type {
  CollectiveOperation,
  KernelOperation,
  MatmulOperation,
  Operation,
  TimeKind,
} from './operation.js';

/**
 * Makes operations of a layer with n tokens in a micro-batch and hidden size h, on t tensor-parallel ranks.
 */
export class OperationMaker {
  readonly #shape: LayerShape;
  /** The number n of tokens of a micro-batch. */
  readonly numTokens: number;
  /** The number of tokens in parts that are not tensor-parallel: n, or n/t with sequence parallelism. */
  readonly numOwnTokens: number;

  constructor(shape: LayerShape) {
    this.#shape = shape;
    this.numTokens = shape.sequenceLength * shape.microBatchSize;
    this.numOwnTokens = this.numTokens / (shape.sequenceParallel ? shape.tp : 1);
  }

  /** Makes a kernel that reads and writes `bytesPerElement` bytes for each of `elements` elements. */
  kernel(
    name: string,
    elements: number,
    bytesPerElement: number,
    time: TimeKind = 'kernels',
  ): KernelOperation {
    return { kind: 'kernel', name, time, bytes: elements * bytesPerElement };
  }

  matmul(name: string, [rows, columns, depth]: readonly [number, number, number]): MatmulOperation {
    return { kind: 'matmul', name, time: 'matmuls', batch: 1, rows, columns, depth, resultBytes: 2 };
  }

  /** Makes a matmul of attention, with one matrix for each sample and head of this rank. */
  attentionMatmul(name: string, [rows, columns, depth]: readonly [number, number, number]): MatmulOperation {
    const { microBatchSize, numHeads, tp } = this.#shape;
    const batch = (microBatchSize * numHeads) / tp;
    return { kind: 'matmul', name, time: 'attention', batch, rows, columns, depth, resultBytes: 2 };
  }

  /** Makes the gradient of a weight [outputs, inputs], and its addition to the accumulated gradient. */
  weightGradient(
    name: string,
    [outputs, inputs]: readonly [number, number],
  ): readonly [MatmulOperation, ...Operation[]] {
    const { gradientBytes, fusesGradientAccumulation } = this.#shape.software;
    const matmul = this.matmul(name, [outputs, inputs, this.numTokens]);
    if (fusesGradientAccumulation) return [{ ...matmul, resultBytes: 2 * gradientBytes }];
    return [matmul, this.kernel(`${name} accumulation`, outputs * inputs, 2 + 2 * gradientBytes)];
  }

  /** Makes a collective of the activations of all tokens; returns no operation for a group of one rank. */
  collective(name: string, collective: CollectiveOperation['collective']): CollectiveOperation[] {
    const { hiddenSize, group } = this.#shape;
    if (group.size === 1) return [];
    return [{ kind: 'collective', name, collective, bytes: 2 * this.numTokens * hiddenSize, group }];
  }
}

/**
 * Returns a collective that overlaps with a matmul if the program supports this, else the collective followed
 * by the matmul.
 */
export function overlap(
  overlaps: boolean,
  [collective]: readonly CollectiveOperation[],
  matmul: MatmulOperation,
): Operation[] {
  if (collective === undefined) return [matmul];
  return overlaps ? [{ kind: 'hidden-collective', collective, behind: matmul }] : [collective, matmul];
}

/**
 * Returns a matmul and a collective of its result, which overlap if the program supports this, else follow
 * each other.
 */
export function overlapResult(
  overlaps: boolean,
  matmul: MatmulOperation,
  reduce: readonly CollectiveOperation[],
): Operation[] {
  return overlaps ? overlap(overlaps, reduce, matmul) : [matmul, ...reduce];
}
