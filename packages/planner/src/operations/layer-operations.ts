import { attentionBackward, attentionForward } from './attention-operations.js';
import type { LayerShape } from './layer-shape.js';
import type { MatmulOperation, Operation } from './operation.js';
import { OperationMaker, overlap, overlapResult } from './operation-maker.js';

/** Operations of a GPT layer on one rank, forward. */
export function layerForward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tensorParallelSize: t, sequenceParallel, software } = shape;
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  const gather = sequenceParallel ? make.collective('all-gather of sequences', 'all-gather') : [];
  const reduce = make.collective('sum of ranks', sequenceParallel ? 'reduce-scatter' : 'all-reduce');
  const inParts = software.tensorOverlap === 'all';
  const gelu = software.fusesKernels
    ? [make.kernel('bias and GeLU', (4 * n * h) / t, 4)]
    : [make.kernel('bias', (4 * n * h) / t, 4), make.kernel('GeLU', (4 * n * h) / t, 4)];
  return [
    make.kernel('layer norm', make.numOwnTokens * h, 4),
    ...overlap(inParts, gather, make.matmul('QKV', [n, (3 * h) / t, h])),
    make.kernel('bias of QKV', (3 * n * h) / t, 4),
    ...attentionForward(shape),
    ...overlapResult(inParts, make.matmul('output projection', [n, h, h / t]), reduce),
    ...residualForward(shape),
    make.kernel('layer norm', make.numOwnTokens * h, 4),
    ...overlap(inParts, gather, make.matmul('h to 4h', [n, (4 * h) / t, h])),
    ...gelu,
    ...overlapResult(inParts, make.matmul('4h to h', [n, h, (4 * h) / t]), reduce),
    ...residualForward(shape),
  ];
}

/** Its backward, and what it recomputes before. */
export function layerBackward(shape: LayerShape): Operation[] {
  const { recomputation } = shape;
  return [
    ...(recomputation === 'full' ? layerForward(shape) : []),
    ...mlpBackward(shape),
    ...(recomputation === 'selective' && shape.software.attention === 'stored-scores'
      ? attentionForward(shape)
      : []),
    ...selfAttentionBackward(shape),
  ];
}

function mlpBackward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tensorParallelSize: t } = shape;
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  return [
    ...residualBackward(shape),
    ...gatherOfGradients(shape, make.matmul('4h to h input gradient', [n, (4 * h) / t, h])),
    ...make.weightGradient('4h to h weight gradient', [h, (4 * h) / t]),
    make.kernel('GeLU backward', (4 * n * h) / t, 6),
    make.kernel('gradient of the bias', (4 * n * h) / t, 2),
    ...columnParallelBackward(shape, { name: 'h to 4h', outputs: (4 * h) / t }),
    ...normBackward(shape),
  ];
}

function selfAttentionBackward(shape: LayerShape): Operation[] {
  const { hiddenSize: h, tensorParallelSize: t } = shape;
  const make = new OperationMaker(shape);
  const n = make.numTokens;
  return [
    ...residualBackward(shape),
    ...gatherOfGradients(shape, make.matmul('output projection input gradient', [n, h / t, h])),
    ...make.weightGradient('output projection weight gradient', [h, h / t]),
    ...attentionBackward(shape),
    make.kernel('gradient of the bias', (3 * n * h) / t, 2),
    ...columnParallelBackward(shape, { name: 'QKV', outputs: (3 * h) / t }),
    ...normBackward(shape),
  ];
}

/**
 * Without sequence parallelism, the sum of input gradients can run behind the weight gradient. With it, the
 * inputs are gathered again behind the input gradient, and the sum is scattered behind the weight gradient.
 */
function columnParallelBackward(
  shape: LayerShape,
  { name, outputs }: { readonly name: string; readonly outputs: number },
): Operation[] {
  const { hiddenSize: h, sequenceParallel, software } = shape;
  const make = new OperationMaker(shape);
  const overlaps = software.tensorOverlap !== 'none';
  const gather = sequenceParallel ? make.collective('all-gather of inputs', 'all-gather') : [];
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

/** Bias, dropout and residual connection. */
function residualForward(shape: LayerShape): Operation[] {
  const { hiddenSize, software } = shape;
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * hiddenSize;
  const maskBytes = software.hasDropout ? 1 : 0;
  if (software.fusesKernels) return [make.kernel('bias, dropout and residual', elements, 6 + maskBytes)];
  return [
    make.kernel('bias', elements, 4),
    ...(software.hasDropout ? [make.kernel('dropout', elements, 5)] : []),
    make.kernel('residual', elements, 6),
  ];
}

function residualBackward(shape: LayerShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * shape.hiddenSize;
  return [
    ...(shape.software.hasDropout ? [make.kernel('dropout backward', elements, 5)] : []),
    make.kernel('gradient of the bias', elements, 2),
  ];
}

/** Layer norm backward, and the sum of its gradient with that of the residual connection. */
function normBackward(shape: LayerShape): Operation[] {
  const make = new OperationMaker(shape);
  const elements = make.numOwnTokens * shape.hiddenSize;
  return [
    make.kernel('layer norm backward', elements, 6),
    make.kernel('gradients of the layer norm', elements, 4),
    make.kernel('sum with the gradient of the residual', elements, 6),
  ];
}
