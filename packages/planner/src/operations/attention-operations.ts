import { blockSizes } from './block-sizes.js';
import type { LayerShape } from './layer-shape.js';
import type { Operation } from './operation.js';
import { OperationMaker } from './operation-maker.js';

/** Attention between the QKV matmul and the output projection, forward. */
export function attentionForward(shape: LayerShape): Operation[] {
  const { sequenceLength: s, software } = shape;
  const { make, scores, headSize, ownHidden } = sizes(shape);
  if (software.attention === 'flash') return [fused(shape, 'attention', 1)];
  const softmax = software.fusesKernels
    ? [make.kernel('scale, mask and softmax', scores, 4, 'attention')]
    : [
        make.kernel('scale', scores, 4, 'attention'),
        make.kernel('mask', scores, 4, 'attention'),
        make.kernel('softmax', scores, 4, 'attention'),
      ];
  return [
    make.attentionMatmul('scores', [s, s, headSize]),
    ...softmax,
    ...(software.hasDropout ? [make.kernel('dropout of scores', scores, 5, 'attention')] : []),
    make.attentionMatmul('context', [s, headSize, s]),
    make.kernel('order of heads', make.numTokens * ownHidden, 4),
  ];
}

/** Its backward. */
export function attentionBackward(shape: LayerShape): Operation[] {
  const { sequenceLength: s, software } = shape;
  const { make, scores, headSize, ownHidden } = sizes(shape);
  if (software.attention === 'flash') return [fused(shape, 'attention backward', 2.5)];
  const unfused = [
    make.kernel('mask backward', scores, 4, 'attention'),
    make.kernel('scale backward', scores, 4, 'attention'),
  ];
  return [
    make.kernel('order of heads', make.numTokens * ownHidden, 4),
    make.attentionMatmul('gradient of probabilities', [s, s, headSize]),
    make.attentionMatmul('gradient of values', [s, headSize, s]),
    ...(software.hasDropout ? [make.kernel('dropout of scores backward', scores, 5, 'attention')] : []),
    make.kernel('softmax backward', scores, 6, 'attention'),
    ...(software.fusesKernels ? [] : unfused),
    make.attentionMatmul('gradient of queries', [s, headSize, s]),
    make.attentionMatmul('gradient of keys', [s, headSize, s]),
    make.kernel('gradients of queries, keys and values', make.numTokens * ownHidden, 12),
  ];
}

function sizes(shape: LayerShape) {
  const { sequenceLength, microBatchSize, hiddenSize, numHeads, tensorParallelSize } = shape;
  return {
    make: new OperationMaker(shape),
    scores: (microBatchSize * numHeads * sequenceLength ** 2) / tensorParallelSize,
    headSize: hiddenSize / numHeads,
    ownHidden: hiddenSize / tensorParallelSize,
  };
}

/** Causal: half of the 4 n s h/t FLOPs, times the matmuls of backward over those of forward. */
function fused(shape: LayerShape, name: string, factor: number): Operation {
  const { make, ownHidden } = sizes(shape);
  // Queries and the result, keys and values.
  const { keysAndValues } = blockSizes(shape);
  const elements = make.numTokens * (2 * ownHidden + keysAndValues / shape.tensorParallelSize);
  const flops = 2 * make.numTokens * shape.sequenceLength * ownHidden * factor;
  return { kind: 'fused-attention', name, flops, bytes: 2 * elements * factor };
}
