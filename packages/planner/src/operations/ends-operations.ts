import type { LayerShape } from './model-size.js';
import type { Operation } from './operation.js';
import { OperationMaker, overlap } from './operation-maker.js';

/** Sizes of the first and the last stage. */
export interface EndsShape extends LayerShape {
  readonly vocabularySize: number;
  /** See `ModelSize`. */
  readonly positionEmbeddings?: boolean;
}

const embedsPositions = ({ block, positionEmbeddings = block !== 'llama' }: EndsShape): boolean =>
  positionEmbeddings;

/** Bytes read and written per logit by a cross entropy of separate kernels, in fp32. */
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
  const weights = (shape.vocabularySize * shape.hiddenSize) / shape.tensorParallelSize;
  return [
    ...(embedsPositions(shape) ? [make.kernel('gradient of positions', elements, 6)] : []),
    make.kernel('gradient of the embedding', elements, 6),
    make.kernel('zeros and accumulation', weights, 4 + 2 * shape.software.gradientBytes),
  ];
}

/** Lists the operations of the final layer norm, the logits and the loss. */
export function headForward(shape: EndsShape): Operation[] {
  const { hiddenSize: h, vocabularySize, tensorParallelSize: t, sequenceParallel } = shape;
  const make = new OperationMaker(shape);
  return [
    make.kernel('norm', make.numOwnTokens * h, 4),
    ...(sequenceParallel ? make.collective('all-gather of sequences', 'all-gather') : []),
    make.matmul('logits', [make.numTokens, vocabularySize / t, h]),
    make.kernel('cross entropy', (make.numTokens * vocabularySize) / t, lossBytes.forward),
  ];
}

export function headBackward(shape: EndsShape): Operation[] {
  const { hiddenSize: h, vocabularySize, tensorParallelSize: t, sequenceParallel, software } = shape;
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
