import type { ProcessGroup } from '@mtl/comm';
import { attentionBackward, attentionForward, cast, Tensor } from '@mtl/kernels';
import { inProcessOrder, inSequenceOrder } from './chunk-order.js';
import type { ContextCall } from './context-attention.js';
import { type BackwardPass, type ContextOperation, type ForwardPass, sumsOf } from './context-operation.js';
import { ownGradients, ownResults } from './own-tensors.js';
import {
  keysAndValuesIn,
  keysAndValuesOf,
  type ProjectionSizes,
  splitKeysAndValues,
} from './projection-parts.js';
import { masksOf, type QueryChunk, queryChunks } from './query-chunks.js';

/**
 * Every process gets the keys and values of all: any mask and window, at the price of 2 G D values for each
 * position of the sequence during a pass. Backward gathers them again, and sums the gradients of keys and
 * values over processes.
 */
export const gatheredAttention: ContextOperation = { name: 'gathered attention', forward, backward };

/** [S, B, G, 2 D] of all processes, in the order of the sequence. */
function gathered(projection: Tensor, sizes: ProjectionSizes, group: ProcessGroup): Tensor {
  const own = keysAndValuesOf(projection, sizes);
  const { shape, dtype, device } = own;
  const all = Tensor.empty({ shape: [shape[0]! * group.size, ...shape.slice(1)], dtype, device });
  group.allGather({ output: all, input: own }).wait();
  own.dispose();
  const whole = inSequenceOrder(all, group.size);
  all.dispose();
  return whole;
}

/** How many of the first keys the queries of a chunk may see. */
const numKeysOf = ({ causal, chunkSize, group }: ContextCall, { chunk }: QueryChunk): number =>
  (causal === true ? chunk + 1 : 2 * group.size) * chunkSize;

function forward(pass: ForwardPass): void {
  const { call, sizes, masks, projection } = pass;
  const keysAndValues = gathered(projection, sizes, call.group);
  for (const queries of queryChunks(call)) {
    attentionForward({
      ...ownResults(pass, queries),
      ...splitKeysAndValues(keysAndValues.rows(0, numKeysOf(call, queries))),
      ...masksOf(call, masks, queries),
    });
  }
}

function backward(pass: BackwardPass): void {
  const { call, sizes, masks, projection, gradient } = pass;
  const { group } = call;
  const { dtype, device } = projection;
  const keysAndValues = gathered(projection, sizes, group);
  const [, ...rowShape] = keysAndValues.shape;
  const newSums = (numRows: number): Tensor =>
    Tensor.empty({ shape: [numRows, ...rowShape], dtype: sumsOf(dtype), device });
  const sums = newSums(keysAndValues.dim(0));
  sums.zero();
  for (const queries of queryChunks(call)) {
    const own = { ...ownResults(pass, queries), ...ownGradients(pass, queries) };
    const numKeys = numKeysOf(call, queries);
    const { key: keyGradient, value: valueGradient } = splitKeysAndValues(sums.rows(0, numKeys));
    const queryGradient = Tensor.empty({ shape: own.query.shape, dtype: sumsOf(dtype), device });
    queryGradient.zero();
    attentionBackward({
      ...own,
      queryGradient,
      keyGradient,
      valueGradient,
      accumulate: true,
      ...splitKeysAndValues(keysAndValues.rows(0, numKeys)),
      ...masksOf(call, masks, queries),
    });
    cast({ output: own.queryGradient, input: queryGradient });
    queryGradient.dispose();
  }
  keysAndValues.dispose();
  const byProcess = inProcessOrder(sums, group.size);
  sums.dispose();
  const own = newSums(sizes.numPositions);
  group.reduceScatter({ output: own, input: byProcess }).wait();
  cast({ output: keysAndValuesIn(gradient, sizes), input: own });
}
