import { type AffineBatch, affineParameters } from './affine-stage.js';

/** The results of a step of the chain. */
export interface ChainResult {
  /** The weighted sum of the losses of each micro-batch, in the order of micro-batches. */
  readonly losses: readonly number[];
  /** The gradients of each chunk's factor and offset. */
  readonly gradients: ReadonlyArray<{ readonly factor: number; readonly offset: number }>;
}

/** Makes micro-batches of small whole numbers, all different. */
export function affineBatches(numMicroBatches: number, size: number): readonly AffineBatch[] {
  const numbers = (seed: number): number[] =>
    Array.from({ length: size }, (_, index) => ((seed * 7 + index * 5) % 11) - 5);
  return Array.from({ length: numMicroBatches }, (_, microBatch) => ({
    values: numbers(microBatch + 1),
    targets: numbers(3 * microBatch + 2),
  }));
}

/** Computes the chain by its formulas, without stages or a pipeline, as the expected result. */
export function affineChain(
  batches: readonly AffineBatch[],
  { numChunks, lossFactor }: { readonly numChunks: number; readonly lossFactor: number },
): ChainResult {
  const chunks = Array.from({ length: numChunks }, (_, chunk) => affineParameters(chunk));
  const gradients = chunks.map(() => ({ factor: 0, offset: 0 }));
  const losses = batches.map(({ values, targets }) => {
    let loss = 0;
    values.forEach((value, index) => {
      const inputs = [value];
      for (const { factor, offset } of chunks) inputs.push(factor * inputs.at(-1)! + offset);
      const difference = inputs.at(-1)! - targets[index]!;
      loss += Math.fround(difference ** 2 / 2) * Math.fround(lossFactor);
      let gradient = lossFactor * difference;
      for (let chunk = numChunks - 1; chunk >= 0; chunk--) {
        gradients[chunk]!.factor += gradient * inputs[chunk]!;
        gradients[chunk]!.offset += gradient;
        gradient *= chunks[chunk]!.factor;
      }
    });
    return loss;
  });
  return { losses, gradients };
}
