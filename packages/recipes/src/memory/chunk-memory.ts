import type { PassKind } from '@mtl/pipeline/schedules';
import type { MemoryShape } from './memory-shape.js';

/** A piece of the model. */
export interface Chunk {
  readonly numLayers: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** Bytes of one micro-batch on one chunk. */
export interface ChunkMemory {
  /** What forward keeps for backward. */
  readonly untilInput: number;
  /** What is kept between the input half of backward and the weight half. */
  readonly untilWeight: number;
  /** The residual stream: what stages pass on. */
  readonly boundary: number;
  /** The most that a pass adds to what there was before it, at any moment. */
  readonly growth: Readonly<Record<PassKind, number>>;
}

/** Most bytes of logits at a time: linearCrossEntropy's default. */
const logitChunkBytes = 128 * 1024 * 1024;

/** Bytes of tensors of one micro-batch, S B rows, in which S B / t is what sequence parallelism leaves of the rows. */
interface Sizes {
  /** S B / t H or S B H: the residual stream. */
  readonly residual: number;
  /** S B H, where sequence parallelism has it put together for a product; else 0. */
  readonly gathered: number;
  /** S B H / t: what the heads of this rank attend to. */
  readonly attended: number;
  /** S B F / t */
  readonly widened: number;
  /** Both numbers of a layer norm, for each row. */
  readonly statistics: number;
  /** Of attention, a number for each row and head. */
  readonly logSumExp: number;
  /** What the first chunk has of a micro-batch (ids), and what the last one has (labels, weights, losses). */
  readonly tokens: { readonly first: number; readonly last: number };
  /** The most logits at a time, with their statistics. */
  readonly logits: number;
}

function sizesOf(shape: MemoryShape): Sizes {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t } = shape;
  const { bytesPerElement: e, numAttentionHeads: A } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const residualRows = shape.sequenceParallel ? rows / t : rows;
  const logits = (rows * e * V) / t;
  const numPieces = Math.max(1, Math.ceil(logits / logitChunkBytes));
  return {
    residual: residualRows * e * H,
    gathered: shape.sequenceParallel ? rows * e * H : 0,
    attended: (rows * e * H) / t,
    widened: (rows * e * F) / t,
    statistics: 8 * residualRows,
    logSumExp: (4 * rows * A) / t,
    tokens: { first: 8 * rows, last: 12 * rows },
    logits: (logits + 12 * rows) / numPieces,
  };
}

/** What a chunk keeps of a micro-batch, and what its passes need besides, operation by operation. */
export function chunkMemory(shape: MemoryShape, chunk: Chunk): ChunkMemory {
  const sizes = sizesOf(shape);
  const untilInput = keptByForward(shape, { chunk, sizes });
  return {
    untilInput,
    untilWeight: chunk.numLayers * splitLayer(shape, sizes) + splitEnds(chunk, sizes),
    boundary: sizes.residual,
    growth: {
      F: untilInput + growthOfForward(shape, { chunk, sizes }),
      B: growthOfBackward(shape, { chunk, sizes }),
      I: growthOfInputHalf(shape, { chunk, sizes, untilInput }),
      W: growthOfWeightHalf(shape, { chunk, sizes }),
    },
  };
}

interface Part {
  readonly chunk: Chunk;
  readonly sizes: Sizes;
}

/** What a layer keeps, without its input: query, key, value, attended, the second norm's input, widened. */
function layerInterior({ residual, attended, widened, statistics, logSumExp }: Sizes): number {
  return 4 * attended + logSumExp + residual + widened + 2 * statistics;
}

/** The final norm's input and statistics. */
const finalNorm = ({ residual, statistics }: Sizes): number => residual + statistics;

function keptByForward({ recomputation }: MemoryShape, { chunk, sizes }: Part): number {
  const { numLayers: L, isFirst, isLast } = chunk;
  const ends = (isFirst ? sizes.tokens.first : 0) + (isLast ? sizes.tokens.last + finalNorm(sizes) : 0);
  if (recomputation.granularity !== 'full') return L * (sizes.residual + layerInterior(sizes)) + ends;
  const { method, numLayers } = recomputation;
  const numWhole = method === 'block' ? Math.max(0, L - numLayers) : 0;
  const numInputs = method === 'block' ? L : Math.ceil(L / numLayers);
  return numInputs * sizes.residual + numWhole * layerInterior(sizes) + ends;
}

/**
 * What a layer keeps between the halves of its backward, recomputed or not: the inputs of both norms, from which those of
 * the products are made again, attended, widened; the gradients of what has weights: both residual sums, both norms, query,
 * key, value and widened; with dropout those of the products before the sums besides, which are else the sums' own.
 */
function splitLayer(
  { hiddenDropout }: MemoryShape,
  { residual, attended, widened, statistics }: Sizes,
): number {
  const numResidual = 6 + (hiddenDropout ? 2 : 0);
  return numResidual * residual + 4 * attended + 2 * widened + 2 * statistics;
}

/** Outside of layers: the gradient of the embeddings; the final norm's input, what it made of it, and that one's gradient. */
function splitEnds({ isFirst, isLast }: Chunk, sizes: Sizes): number {
  const first = isFirst ? sizes.tokens.first + sizes.residual : 0;
  return first + (isLast ? sizes.tokens.last + finalNorm(sizes) + 2 * sizes.residual : 0);
}

/** In the last layer: activated and what the product makes of it; recomputed, what is not kept of the layer besides. */
function growthOfForward({ recomputation }: MemoryShape, { chunk, sizes }: Part): number {
  const { residual, gathered, widened } = sizes;
  const isKept =
    recomputation.granularity !== 'full' ||
    (recomputation.method === 'block' && recomputation.numLayers < chunk.numLayers);
  return (isKept ? 0 : residual + widened) + widened + Math.max(residual, gathered);
}

/** The head: the normalized input again, its gradient, and one chunk of logits. */
const headOfBackward = ({ residual, gathered, logits }: Sizes): number =>
  2 * Math.max(residual, gathered) + logits;

/** Both halves together free a layer before they begin with the one below it: the most is at the head or in the last layer. */
function growthOfBackward(shape: MemoryShape, { chunk, sizes }: Part): number {
  const { residual, gathered, widened } = sizes;
  // gradient of the residual stream, of the network's output, the activated and its gradient
  const feedForward = residual * (shape.hiddenDropout ? 2 : 1) + gathered + 2 * widened;
  const layer = feedForward + recomputedLayers(shape, { chunk, sizes });
  // by then what the final norm has kept is gone
  return chunk.isLast ? Math.max(headOfBackward(sizes), layer - finalNorm(sizes)) : layer;
}

/**
 * The input half frees little and keeps gradients, so that the most is in its last layer, the first of the chunk: all others
 * have become what the weight half will need, and this one is whole, computed again or not.
 */
function growthOfInputHalf(shape: MemoryShape, part: Part & { readonly untilInput: number }): number {
  const { chunk, sizes, untilInput } = part;
  const { residual, gathered, attended, widened } = sizes;
  const dropped = shape.hiddenDropout ? residual : 0;
  const whole = residual + layerInterior(sizes);
  const others = (chunk.numLayers - 1) * splitLayer(shape, sizes);
  // gradients: of the layer's result and the network's; then of activated and widened
  const feedForward = residual + dropped + widened + Math.max(widened, gathered);
  // of both sums and what they add, of the second norm's result, of widened, of attended, of query, key and value
  const attention = 3 * residual + 2 * dropped + widened + 4 * attended;
  // what the layer keeps from then on, and the gradient of its input
  const end = splitLayer(shape, sizes) + residual - whole;
  const ends = splitEnds({ ...chunk, isFirst: false }, sizes) + (chunk.isFirst ? sizes.tokens.first : 0);
  const inLayer = others + whole + ends + Math.max(feedForward, attention, end) - untilInput;
  return chunk.isLast ? Math.max(headOfBackward(sizes), inLayer) : inLayer;
}

/** The weight half only frees, but for what it computes again: logits at the head, activated in the last layer. */
function growthOfWeightHalf({ hiddenDropout }: MemoryShape, { chunk, sizes }: Part): number {
  const { residual, gathered, widened, logits } = sizes;
  const freed = residual + (chunk.isLast ? 2 * residual + finalNorm(sizes) : 0);
  const head = chunk.isLast ? gathered + logits : 0;
  return Math.max(head, hiddenDropout ? residual : 0, widened + gathered - freed);
}

/** What full recomputation builds again before the backward of a group. */
function recomputedLayers({ recomputation }: MemoryShape, { chunk, sizes }: Part): number {
  if (recomputation.granularity !== 'full') return 0;
  const { numLayers: L } = chunk;
  const { method, numLayers } = recomputation;
  if (method === 'block' && numLayers < L) return 0; // the last layer, where the peak is, is kept
  const group = method === 'block' ? 1 : Math.min(numLayers, L);
  return group * layerInterior(sizes) + (group - 1) * sizes.residual;
}
