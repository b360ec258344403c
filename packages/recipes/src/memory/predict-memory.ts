import type { Recomputation } from '@mtl/models';

/** What the memory of one rank depends on. Sizes are those of the whole model and of one micro-batch. */
export interface MemoryShape {
  /** B: samples of a micro-batch. */
  readonly microBatchSize: number;
  /** S */
  readonly sequenceLength: number;
  /** L */
  readonly numLayers: number;
  /** H */
  readonly hiddenSize: number;
  /** F */
  readonly ffnHiddenSize: number;
  /** A */
  readonly numAttentionHeads: number;
  /** V, padded. */
  readonly vocabSize: number;
  readonly maxPositionEmbeddings: number;
  readonly tieEmbeddings: boolean;
  /** Bytes of an activation and of a parameter as the model computes with it: 4, or 2 in half precision. */
  readonly bytesPerElement: 2 | 4;
  /** Whether anything is dropped after the attention's projection and the feed-forward network. */
  readonly hiddenDropout: boolean;
  readonly recomputation: Recomputation;
  /** t */
  readonly tensorParallelSize: number;
  readonly sequenceParallel: boolean;
  /** d: ranks that share optimizer states; 1 without a distributed optimizer. */
  readonly optimizerShards: number;
}

/** Bytes of one rank, by what they are for. */
export interface MemoryPrediction {
  /** Parameters as the model computes with them. */
  readonly parameters: number;
  /** float32 main gradients. */
  readonly gradients: number;
  /** float32 master weights (where they are not the parameters themselves) and both moments of AdamW. */
  readonly optimizer: number;
  /** What forward keeps for backward, of one micro-batch. */
  readonly activations: number;
  /** The most that backward needs besides, at the moment of the peak. */
  readonly temporary: number;
  readonly total: number;
}

/** Most bytes of logits at a time: linearCrossEntropy's default. */
const logitChunkBytes = 128 * 1024 * 1024;

/**
 * Bytes that training one micro-batch at a time takes on one rank, operation by operation as these layers keep them:
 * layer-norm and GELU outputs are computed again in backward and attention never stores S x S, so a layer keeps its
 * input, the projection qkv (3H), the attention output, the input of the second norm and the widened activations (F):
 *
 *   S B e (2H + 4H/t + F/t)  +  16 S B  +  4 S B A/t
 *
 * bytes with e bytes per element, 8 S B for the statistics of each layer norm and 4 for each row of attention; sequence
 * parallelism divides 2H and 16 by t as well. Korthikanti et al. 2022 (table 2) count stored masks, norms and attention
 * matrices besides. The peak comes in backward, either at the logits or in the last layer's feed-forward network.
 */
export function predictMemory(shape: MemoryShape): MemoryPrediction {
  const numParameters = parametersPerRank(shape);
  const half = shape.bytesPerElement === 2;
  const parameters = shape.bytesPerElement * numParameters;
  const gradients = 4 * numParameters;
  const optimizer = ((half ? 12 : 8) * numParameters) / shape.optimizerShards;
  const activations = keptActivations(shape);
  const temporary = largestTemporary(shape);
  const total = parameters + gradients + optimizer + activations + temporary;
  return { parameters, gradients, optimizer, activations, temporary, total };
}

function parametersPerRank(shape: MemoryShape): number {
  const { numLayers: L, hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t } = shape;
  const matrices = 4 * H * H + 2 * H * F + 3 * H + F;
  const replicated = 6 * H; // both norms, and the biases of the row-parallel products
  const tables = ((shape.tieEmbeddings ? 1 : 2) * V * H) / t + shape.maxPositionEmbeddings * H;
  return L * (matrices / t + replicated) + tables + 2 * H;
}

/** Rows (tokens) of a tensor that sequence parallelism splits. */
function residualRows(shape: MemoryShape): number {
  const rows = shape.sequenceLength * shape.microBatchSize;
  return shape.sequenceParallel ? rows / shape.tensorParallelSize : rows;
}

/** What a layer keeps, without its input. */
function layerInterior(shape: MemoryShape): number {
  const { hiddenSize: H, ffnHiddenSize: F, numAttentionHeads: A, tensorParallelSize: t } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const split = (shape.bytesPerElement * (4 * H + F) + 4 * A) / t;
  return rows * split + residualRows(shape) * (shape.bytesPerElement * H + 16);
}

function keptActivations(shape: MemoryShape): number {
  const { numLayers: L, hiddenSize: H, bytesPerElement, recomputation } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const residual = residualRows(shape) * bytesPerElement * H;
  const ends = 20 * rows; // ids, labels, weights and losses
  if (recomputation.granularity !== 'full') return L * (residual + layerInterior(shape)) + ends;
  const { method, numLayers } = recomputation;
  const numWhole = method === 'block' ? Math.max(0, L - numLayers) : 0;
  const numInputs = method === 'block' ? L : Math.ceil(L / numLayers);
  return numInputs * residual + numWhole * layerInterior(shape) + ends;
}

function largestTemporary(shape: MemoryShape): number {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t, bytesPerElement } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const residual = residualRows(shape) * bytesPerElement * H;
  const gathered = shape.sequenceParallel ? rows * bytesPerElement * H : 0;
  const logits = (rows * bytesPerElement * V) / t;
  const numChunks = Math.max(1, Math.ceil(logits / logitChunkBytes));
  // the final norm's input and statistics, kept until its turn in backward comes
  const finalNorm = residual + 8 * residualRows(shape);
  // the normalized input again, its gradient, one chunk of logits with its statistics
  const head = finalNorm + 2 * Math.max(residual, gathered) + (logits + 12 * rows) / numChunks;
  // by then the final norm's are gone: the gradient of the residual stream, that of the network's output, and the
  // activated and its gradient
  const feedForward =
    residual * (shape.hiddenDropout ? 2 : 1) + gathered + (2 * rows * bytesPerElement * F) / t;
  return Math.max(head, feedForward + recomputedLayers(shape));
}

/** What full recomputation builds again before the backward of a group. */
function recomputedLayers(shape: MemoryShape): number {
  const { recomputation, numLayers: L, hiddenSize: H, bytesPerElement } = shape;
  if (recomputation.granularity !== 'full') return 0;
  const { method, numLayers } = recomputation;
  if (method === 'block' && numLayers < L) return 0; // the last layer, where the peak is, is kept
  const group = method === 'block' ? 1 : Math.min(numLayers, L);
  const inputs = (group - 1) * residualRows(shape) * bytesPerElement * H;
  return group * layerInterior(shape) + inputs;
}
