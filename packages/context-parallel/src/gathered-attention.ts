import { attentionBackward, attentionForward, cast, Tensor } from '@mtl/kernels';
import {
  type BackwardPass,
  type ContextOperation,
  chooseSumDtype,
  type ForwardPass,
  ownGradients,
  ownResults,
  type Pass,
} from './context-operation.js';
import { joinKeysAndValues, splitKeysAndValues } from './heads-of-rows.js';

/**
 * Attention for which every process gathers all keys and values. It supports any mask and window, but during
 * a forward or backward pass it needs memory for `G * (D + E)` values per position of the whole sequence.
 * Backward gathers keys and values again, and sums their gradients over processes.
 */
export const gatheredAttention: ContextOperation = { name: 'gathered attention', forward, backward };

/**
 * Gathers the keys and values of all processes, [S, B, G, D + E] (packed: [T, G, D + E]), in sequence order.
 */
function gathered({ heads, chunks }: Pass): Tensor {
  const { group } = chunks;
  const own = joinKeysAndValues(heads);
  const { shape, dtype, device } = own;
  const all = Tensor.empty({ shape: [shape[0]! * group.size, ...shape.slice(1)], dtype, device });
  group.allGather({ output: all, input: own }).wait();
  own.dispose();
  const whole = chunks.inSequenceOrder(all);
  all.dispose();
  return whole;
}

function forward(pass: ForwardPass): void {
  const { call, chunks, sizes } = pass;
  const keysAndValues = gathered(pass);
  chunks.ofRank(chunks.group.rank).forEach((chunk, place) => {
    const { numRows, options } = chunks.optionsOfAll(call, chunk);
    attentionForward({
      ...ownResults(pass, place),
      highestScores: call.highestScores,
      ...splitKeysAndValues(keysAndValues.rows(0, numRows), sizes.headSize),
      ...options,
    });
  });
}

function backward(pass: BackwardPass): void {
  const { call, chunks, sizes, heads, gradient } = pass;
  const { group } = chunks;
  const { dtype, device } = heads.key;
  const keysAndValues = gathered(pass);
  const [, ...rowShape] = keysAndValues.shape;
  const newSums = (numRows: number): Tensor =>
    Tensor.empty({ shape: [numRows, ...rowShape], dtype: chooseSumDtype(dtype), device });
  const sums = newSums(keysAndValues.dim(0));
  sums.zero();
  chunks.ofRank(group.rank).forEach((chunk, place) => {
    const own = ownGradients(pass, place);
    const { numRows, options } = chunks.optionsOfAll(call, chunk);
    const { key: keyGradient, value: valueGradient } = splitKeysAndValues(
      sums.rows(0, numRows),
      sizes.headSize,
    );
    const queryGradient = Tensor.empty({ shape: own.query.shape, dtype: chooseSumDtype(dtype), device });
    queryGradient.zero();
    attentionBackward({
      ...own,
      queryGradient,
      keyGradient,
      valueGradient,
      accumulate: true,
      ...splitKeysAndValues(keysAndValues.rows(0, numRows), sizes.headSize),
      ...options,
    });
    cast({ output: own.queryGradient, input: queryGradient });
    queryGradient.dispose();
  });
  keysAndValues.dispose();
  const byProcess = chunks.inProcessOrder(sums);
  sums.dispose();
  const own = newSums(sizes.rows[0]!);
  group.reduceScatter({ output: own, input: byProcess }).wait();
  const { key, value } = splitKeysAndValues(own, sizes.headSize);
  cast({ output: gradient.key, input: key });
  cast({ output: gradient.value, input: value });
}
