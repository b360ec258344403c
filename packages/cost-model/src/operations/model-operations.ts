import { blockSizes, type LayerShape } from './model-size.js';
import type { MatmulOperation, Operation } from './operation.js';
import { OperationMaker, overlap, overlapResult } from './operation-maker.js';

/** Lists the operations of a layer's forward pass on one rank. */
export function layerForward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tp: t, sequenceParallel, software } = shape;
  const { ffn, qkv, fc1 } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  const gather = sequenceParallel ? make.collective('all-gather of sequences', 'all-gather') : [];
  const reduce = make.collective('sum of ranks', sequenceParallel ? 'reduce-scatter' : 'all-reduce');
  const inParts = software.tensorOverlap === 'all';
  return [
    ...normForward(shape),
    ...overlap(inParts, gather, make.matmul('QKV', [n, qkv / t, h])),
    ...afterQkv(shape),
    ...attentionForward(shape),
    ...overlapResult(inParts, make.matmul('output projection', [n, h, h / t]), reduce),
    ...residualForward(shape),
    ...normForward(shape),
    ...overlap(inParts, gather, make.matmul('fc1', [n, fc1 / t, h])),
    ...activationForward(shape),
    ...overlapResult(inParts, make.matmul('fc2', [n, h, ffn / t]), reduce),
    ...residualForward(shape),
  ];
}

/**
 * Lists the bias of queries, keys and values, or the rotation of queries and keys. The backward pass moves
 * the same number of bytes.
 */
function afterQkv(shape: LayerShape): Operation[] {
  const { isLlama, qkv, keysAndValues } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const outputs = isLlama ? qkv - keysAndValues / 2 : qkv;
  const elements = (make.numTokens * outputs) / shape.tp;
  if (!isLlama) return [make.kernel('bias of QKV', elements, 4)];
  if (shape.software.fusesKernels) return [make.kernel('rotary', elements, 4)];
  return [
    make.kernel('rotary in fp32', elements, 6),
    make.kernel('rotary', elements, 8),
    make.kernel('rotary in 16 bits', elements, 6),
  ];
}

/**
 * Lists the operations of the norm before a sublayer. Without fusion, each operation of an RMS norm is a
 * separate kernel.
 */
function normForward(shape: LayerShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * shape.hiddenSize;
  if (shape.software.fusesKernels || !blockSizes(shape).isLlama) return [make.kernel('norm', elements, 4)];
  return [
    make.kernel('norm in fp32', elements, 6),
    make.kernel('squares', elements, 8),
    make.kernel('mean', elements, 4),
    make.kernel('norm', elements, 8),
    make.kernel('norm in 16 bits', elements, 6),
    make.kernel('scale of the norm', elements, 4),
  ];
}

function activationForward(shape: LayerShape): Operation[] {
  const { isLlama, ffn } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const elements = (make.numTokens * ffn) / shape.tp;
  if (isLlama && !shape.software.fusesKernels) {
    return [make.kernel('SiLU', elements, 4), make.kernel('product with the gate', elements, 6)];
  }
  if (isLlama) return [make.kernel('SwiGLU', elements, 6)];
  if (shape.software.fusesKernels) return [make.kernel('bias and GeLU', elements, 4)];
  return [make.kernel('bias', elements, 4), make.kernel('GeLU', elements, 4)];
}

function activationBackward(shape: LayerShape): Operation[] {
  const { isLlama, ffn } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const elements = (make.numTokens * ffn) / shape.tp;
  if (isLlama && !shape.software.fusesKernels) {
    return [
      make.kernel('product with the gate backward', elements, 12),
      make.kernel('SiLU backward', elements, 6),
    ];
  }
  if (isLlama) return [make.kernel('SwiGLU backward', elements, 10)];
  return [make.kernel('GeLU backward', elements, 6), make.kernel('gradient of the bias', elements, 2)];
}

/** Lists the operations of a layer's backward pass, including the operations that are recomputed. */
export function layerBackward(shape: LayerShape): Operation[] {
  const { recomputation, software } = shape;
  const recomputed =
    recomputation === 'selective' ? (software.selectiveRecomputation ?? 'attention') : undefined;
  return [
    ...(recomputation === 'full' ? layerForward(shape) : []),
    ...(recomputed === 'alternate-matmuls' ? alternateForward(shape) : []),
    ...mlpBackward(shape),
    ...(recomputed === 'attention' && software.attention === 'stored-scores' ? attentionForward(shape) : []),
    ...selfAttentionBackward(shape),
  ];
}

/**
 * Lists the forward operations that recomputation of alternate matmuls computes again. The results of every
 * second matmul and of attention are kept, so these operations are left out. The matmuls are queries, keys,
 * values, output projection, and the two or three of the MLP.
 */
function alternateForward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tp: t, sequenceParallel } = shape;
  const { isLlama, ffn, fc1, keysAndValues } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  const gather = sequenceParallel ? make.collective('all-gather of sequences', 'all-gather') : [];
  return [
    ...normForward(shape),
    ...gather,
    ...(isLlama ? [make.matmul('keys', [n, keysAndValues / 2 / t, h])] : []),
    ...afterQkv(shape),
    make.matmul('output projection', [n, h, h / t]),
    ...residualForward(shape),
    ...normForward(shape),
    ...gather,
    isLlama ? make.matmul('up', [n, fc1 / 2 / t, h]) : make.matmul('fc2', [n, h, ffn / t]),
    ...activationForward(shape),
  ];
}

function mlpBackward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tp: t } = shape;
  const { ffn, fc1 } = blockSizes(shape);
  const make = new OperationMaker(shape);
  return [
    ...residualBackward(shape),
    ...gatherOfGradients(shape, make.matmul('fc2 input gradient', [make.numTokens, ffn / t, h])),
    ...make.weightGradient('fc2 weight gradient', [h, ffn / t]),
    ...activationBackward(shape),
    ...columnParallelBackward(shape, { name: 'fc1', outputs: fc1 / t }),
    ...normBackward(shape),
  ];
}

function selfAttentionBackward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tp: t } = shape;
  const { isLlama, qkv } = blockSizes(shape);
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  return [
    ...residualBackward(shape),
    ...gatherOfGradients(shape, make.matmul('output projection input gradient', [n, h / t, h])),
    ...make.weightGradient('output projection weight gradient', [h, h / t]),
    ...attentionBackward(shape),
    ...(isLlama ? afterQkv(shape) : [make.kernel('gradient of the bias', (n * qkv) / t, 2)]),
    ...columnParallelBackward(shape, { name: 'QKV', outputs: qkv / t }),
    ...normBackward(shape),
  ];
}

/**
 * Lists the backward pass of a column-parallel matmul. Without sequence parallelism, the all-reduce of input
 * gradients can overlap with the weight gradient. With sequence parallelism, the all-gather of the inputs can
 * overlap with the input gradient, and the reduce-scatter with the weight gradient.
 */
function columnParallelBackward(
  shape: LayerShape,
  { name, outputs }: { readonly name: string; readonly outputs: number },
): Operation[] {
  const { hiddenSize: h, sequenceParallel, software } = shape;
  const make = new OperationMaker(shape);
  const overlaps = software.tensorOverlap !== 'none';
  const gathersInput = sequenceParallel && software.keepsGatheredInputs !== true;
  const gather = gathersInput ? make.collective('all-gather of inputs', 'all-gather') : [];
  const reduce = make.collective('sum of gradients', sequenceParallel ? 'reduce-scatter' : 'all-reduce');
  const [weightGradient, ...rest] = make.weightGradient(`${name} weight gradient`, [outputs, h]);
  return [
    ...overlap(overlaps, gather, make.matmul(`${name} input gradient`, [make.numTokens, h, outputs])),
    ...overlap(overlaps, reduce, weightGradient),
    ...rest,
  ];
}

function gatherOfGradients(shape: LayerShape, matmul: MatmulOperation): Operation[] {
  if (!shape.sequenceParallel) return [matmul];
  const gather = new OperationMaker(shape).collective('all-gather of gradients', 'all-gather');
  return overlap(shape.software.tensorOverlap === 'all', gather, matmul);
}

/** Lists bias, dropout and residual connection. */
function residualForward(shape: LayerShape): Operation[] {
  const { hiddenSize, software } = shape;
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * hiddenSize;
  const maskBytes = software.hasDropout ? 1 : 0;
  if (software.fusesKernels) return [make.kernel('bias, dropout and residual', elements, 6 + maskBytes)];
  return [
    ...(blockSizes(shape).isLlama ? [] : [make.kernel('bias', elements, 4)]),
    ...(software.hasDropout ? [make.kernel('dropout', elements, 5)] : []),
    make.kernel('residual', elements, 6),
  ];
}

function residualBackward(shape: LayerShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * shape.hiddenSize;
  return [
    ...(shape.software.hasDropout ? [make.kernel('dropout backward', elements, 5)] : []),
    ...(blockSizes(shape).isLlama ? [] : [make.kernel('gradient of the bias', elements, 2)]),
  ];
}

/**
 * Lists the backward pass of a norm, and the addition of its gradient to the gradient of the residual
 * connection.
 */
function normBackward(shape: LayerShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * shape.hiddenSize;
  const isApart = blockSizes(shape).isLlama && !shape.software.fusesKernels;
  return [
    // without fusion: a product with the scale, the conversion to fp32, three products, two sums, and a
    // conversion back
    isApart
      ? make.kernel('norm backward, kernel by kernel', elements, 60)
      : make.kernel('norm backward', elements, 6),
    make.kernel('gradients of the norm', elements, 4),
    make.kernel('sum with the gradient of the residual', elements, 6),
  ];
}

/** Lists the operations of attention's forward pass between the QKV matmul and the output projection. */
function attentionForward(shape: LayerShape): Operation[] {
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

/** Lists the operations of attention's backward pass. */
function attentionBackward(shape: LayerShape): Operation[] {
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
  const { sequenceLength, microBatchSize, hiddenSize, numHeads, tp } = shape;
  return {
    make: new OperationMaker(shape),
    scores: (microBatchSize * numHeads * sequenceLength ** 2) / tp,
    headSize: hiddenSize / numHeads,
    ownHidden: hiddenSize / tp,
  };
}

/**
 * Returns causal attention in one kernel: half of the `4 * n * s * h / t` FLOPs, multiplied by `factor`, the
 * number of matmuls relative to the forward pass.
 */
function fused(shape: LayerShape, name: string, factor: number): Operation {
  const { make, ownHidden } = sizes(shape);
  // the elements of queries and of the result, each of hidden size, and of keys and values
  const { keysAndValues } = blockSizes(shape);
  const elements = make.numTokens * (2 * ownHidden + keysAndValues / shape.tp);
  const flops = 2 * make.numTokens * shape.sequenceLength * ownHidden * factor;
  return { kind: 'fused-attention', name, flops, bytes: 2 * elements * factor };
}

/** Sizes of the first and the last stage, including the vocabulary size. */
export interface EndsShape extends LayerShape {
  readonly vocabularySize: number;
  /** True if the model has learned position embeddings (see `ModelSize`). */
  readonly positionEmbeddings?: boolean;
}

const embedsPositions = ({ block, positionEmbeddings = block !== 'llama' }: EndsShape): boolean =>
  positionEmbeddings;

/** Bytes that a cross entropy in separate fp32 kernels reads and writes per logit. */
const lossBytes = { forward: 40, backward: 12 };

export function embeddingForward(shape: EndsShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numTokens * shape.hiddenSize;
  const own = make.numOwnTokens * shape.hiddenSize;
  return [
    make.kernel('embedding of tokens', elements, 4),
    ...make.collective('sum of embeddings', shape.sequenceParallel ? 'reduce-scatter' : 'all-reduce'),
    ...(embedsPositions(shape) ? [make.kernel('embedding of positions', own, 6)] : []),
    ...(shape.software.hasDropout ? [make.kernel('dropout', own, 5)] : []),
  ];
}

export function embeddingBackward(shape: EndsShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numTokens * shape.hiddenSize;
  const weights = (shape.vocabularySize * shape.hiddenSize) / shape.tp;
  return [
    ...(embedsPositions(shape) ? [make.kernel('gradient of positions', elements, 6)] : []),
    make.kernel('gradient of the embedding', elements, 6),
    make.kernel('zeros and accumulation', weights, 4 + 2 * shape.software.gradientBytes),
  ];
}

/** Lists the operations of the final layer norm, the logits and the loss. */
export function headForward(shape: EndsShape): Operation[] {
  const { hiddenSize: h, vocabularySize, tp: t, sequenceParallel } = shape;
  const make = new OperationMaker(shape);
  return [
    make.kernel('norm', make.numOwnTokens * h, 4),
    ...(sequenceParallel ? make.collective('all-gather of sequences', 'all-gather') : []),
    make.matmul('logits', [make.numTokens, vocabularySize / t, h]),
    make.kernel('cross entropy', (make.numTokens * vocabularySize) / t, lossBytes.forward),
  ];
}

export function headBackward(shape: EndsShape): Operation[] {
  const { hiddenSize: h, vocabularySize, tp: t, sequenceParallel, software } = shape;
  const make = new OperationMaker(shape);
  const reduce = make.collective('sum of gradients', sequenceParallel ? 'reduce-scatter' : 'all-reduce');
  const [weightGradient, ...rest] = make.weightGradient('logits weight gradient', [vocabularySize / t, h]);
  return [
    make.kernel('cross entropy backward', (make.numTokens * vocabularySize) / t, lossBytes.backward),
    make.matmul('logits input gradient', [make.numTokens, h, vocabularySize / t]),
    ...overlap(software.tensorOverlap !== 'none', reduce, weightGradient),
    ...rest,
    make.kernel('norm backward', make.numOwnTokens * h, 10),
  ];
}
