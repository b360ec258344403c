import { attentionBackward, attentionForward, cast, Tensor } from '@mtl/kernels';
import type { Chunks } from './chunks.js';
import {
  type BackwardPass,
  type ContextOperation,
  type ForwardPass,
  ownGradients,
  ownResults,
  sumsOf,
} from './context-operation.js';
import {
  keysAndValuesIn,
  keysAndValuesOf,
  type ProjectionSizes,
  splitKeysAndValues,
} from './projection-parts.js';

/**
 * Attention for which every process gathers all keys and values. It supports any mask and window, but keeps 2
 * G D values for each position of the sequence during a pass. Backward gathers keys and values again, and
 * sums their gradients over processes.
 */
export const gatheredAttention: ContextOperation = { name: 'gathered attention', forward, backward };

/**
 * Gathers the keys and values of all processes, [S, B, G, 2 D] (packed: [T, G, 2 D]), in the order of the
 * sequences.
 */
function gathered(projection: Tensor, sizes: ProjectionSizes, chunks: Chunks): Tensor {
  const { group } = chunks;
  const own = keysAndValuesOf(projection, sizes);
  const { shape, dtype, device } = own;
  const all = Tensor.empty({ shape: [shape[0]! * group.size, ...shape.slice(1)], dtype, device });
  group.allGather({ output: all, input: own }).wait();
  own.dispose();
  const whole = chunks.inSequenceOrder(all);
  all.dispose();
  return whole;
}

function forward(pass: ForwardPass): void {
  const { call, chunks, sizes, projection } = pass;
  const keysAndValues = gathered(projection, sizes, chunks);
  chunks.ofRank(chunks.group.rank).forEach((chunk, place) => {
    const { numRows, masks } = chunks.masksOfAll(call, chunk);
    attentionForward({
      ...ownResults(pass, place),
      ...splitKeysAndValues(keysAndValues.rows(0, numRows)),
      ...masks,
    });
  });
}

function backward(pass: BackwardPass): void {
  const { call, chunks, sizes, projection, gradient } = pass;
  const { group } = chunks;
  const { dtype, device } = projection;
  const keysAndValues = gathered(projection, sizes, chunks);
  const [, ...rowShape] = keysAndValues.shape;
  const newSums = (numRows: number): Tensor =>
    Tensor.empty({ shape: [numRows, ...rowShape], dtype: sumsOf(dtype), device });
  const sums = newSums(keysAndValues.dim(0));
  sums.zero();
  chunks.ofRank(group.rank).forEach((chunk, place) => {
    const own = ownGradients(pass, place);
    const { numRows, masks } = chunks.masksOfAll(call, chunk);
    const { key: keyGradient, value: valueGradient } = splitKeysAndValues(sums.rows(0, numRows));
    const queryGradient = Tensor.empty({ shape: own.query.shape, dtype: sumsOf(dtype), device });
    queryGradient.zero();
    attentionBackward({
      ...own,
      queryGradient,
      keyGradient,
      valueGradient,
      accumulate: true,
      ...splitKeysAndValues(keysAndValues.rows(0, numRows)),
      ...masks,
    });
    cast({ output: own.queryGradient, input: queryGradient });
    queryGradient.dispose();
  });
  keysAndValues.dispose();
  const byProcess = chunks.inProcessOrder(sums);
  sums.dispose();
  const own = newSums(sizes.rows[0]!);
  group.reduceScatter({ output: own, input: byProcess }).wait();
  cast({ output: keysAndValuesIn(gradient, sizes), input: own });
}
