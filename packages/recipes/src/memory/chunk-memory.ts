import type { PassKind } from '@mtl/pipeline/schedules';
import { type EndsMemory, endsMemory } from './ends-memory.js';
import type { MemoryShape } from './memory-shape.js';
import { type TensorSizes, tensorSizes } from './tensor-sizes.js';

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
  /**
   * What does not fit between what is kept, and so comes on top, in memory that one micro-batch has alone.
   */
  readonly cutting: number;
  /** The most that a pass adds to what there was before it, at any moment. */
  readonly growth: Readonly<Record<PassKind, number>>;
}

/** What a chunk keeps of a micro-batch, and what its passes need besides, operation by operation. */
export function chunkMemory(shape: MemoryShape, chunk: Chunk): ChunkMemory {
  const sizes = tensorSizes(shape);
  const part = { chunk, sizes, ends: endsMemory(shape, { chunk, sizes }) };
  const untilInput = keptByForward(shape, part);
  return {
    untilInput,
    untilWeight: chunk.numLayers * splitLayer(shape, sizes) + inputOfLayers(shape, part) + splitEnds(part),
    boundary: sizes.residual,
    cutting: shape.recomputation.granularity === 'full' ? 0 : sizes.widened,
    growth: {
      F: untilInput + growthOfForward(shape, part),
      B: growthOfBackward(shape, part),
      I: growthOfInputHalf(shape, { ...part, untilInput }),
      W: growthOfWeightHalf(shape, part),
    },
  };
}

interface Part {
  readonly chunk: Chunk;
  readonly sizes: TensorSizes;
  readonly ends: EndsMemory;
}

const isPost = ({ bert }: MemoryShape): boolean => bert?.layerNormPlacement === 'post';

/** What a layer keeps, without its input: query, key, value, attended, the second norm's input, widened. */
function layerInterior({ residual, attended, widened, statistics, logSumExp }: TensorSizes): number {
  return 4 * attended + logSumExp + residual + widened + 2 * statistics;
}

/**
 * What the layers keep besides as many inputs of norms as there are: with norms after the sublayers the first
 * layer's input, which no norm reads. Dropped embeddings are such an input; else they are what the norm after
 * them can make again.
 */
function inputOfLayers(shape: MemoryShape, { chunk, sizes }: Part): number {
  return isPost(shape) && (!chunk.isFirst || shape.hiddenDropout) ? sizes.residual : 0;
}

function keptByForward(shape: MemoryShape, part: Part): number {
  const { chunk, sizes, ends } = part;
  const { numLayers: L } = chunk;
  const { recomputation } = shape;
  const atEnds = ends.batch + ends.embedding.kept + ends.head.kept;
  const all = L * (sizes.residual + layerInterior(sizes)) + inputOfLayers(shape, part);
  if (recomputation.granularity !== 'full') return all + atEnds;
  const { method, numLayers } = recomputation;
  const numWhole = method === 'block' ? Math.max(0, L - numLayers) : 0;
  const numInputs = method === 'block' ? L : Math.ceil(L / numLayers);
  // inputs of layers that are computed again are kept as they are
  const besides = isPost(shape) && numWhole > 0 ? sizes.residual : 0;
  return numInputs * sizes.residual + numWhole * layerInterior(sizes) + besides + atEnds;
}

/**
 * What a layer keeps between the halves of its backward, recomputed or not: the inputs of both norms, from
 * which those of the products are made again, attended, widened; the gradients of what has weights: both
 * residual sums, both norms, query, key, value and widened; with dropout those of the products before the
 * sums besides, which are else the sums' own.
 */
function splitLayer(
  { hiddenDropout }: MemoryShape,
  { residual, attended, widened, statistics }: TensorSizes,
): number {
  const numResidual = 6 + (hiddenDropout ? 2 : 0);
  return numResidual * residual + 4 * attended + 2 * widened + 2 * statistics;
}

const splitEnds = ({ ends }: Part): number => ends.batch + ends.embedding.split + ends.head.split;

/**
 * In the last layer: activated and what the product makes of it; recomputed, what is not kept of the layer
 * besides.
 */
function growthOfForward({ recomputation }: MemoryShape, { chunk, sizes }: Part): number {
  const { residual, gathered, widened } = sizes;
  const isKept =
    recomputation.granularity !== 'full' ||
    (recomputation.method === 'block' && recomputation.numLayers < chunk.numLayers);
  return (isKept ? 0 : residual + widened) + widened + Math.max(residual, gathered);
}

/**
 * Both halves together free a layer before they begin with the one below it: the most is at the head or in
 * the last layer.
 */
function growthOfBackward(shape: MemoryShape, part: Part): number {
  const { chunk, sizes, ends } = part;
  const { residual, gathered, widened, statistics } = sizes;
  // gradient of the residual stream, of the network's output, the activated and its gradient
  const feedForward = residual * (shape.hiddenDropout ? 2 : 1) + gathered + 2 * widened;
  const isAgain = shape.recomputation.granularity === 'full';
  // a norm after the network has made a gradient of its own of that of the layer's result, which the
  // caller still holds
  const held = isPost(shape) && isAgain ? residual : 0;
  const layer = feedForward + held + recomputedLayers(shape, part);
  if (!chunk.isLast) return layer;
  // by then what the head has kept is gone, and with norms after the sublayers the input of the last one
  const gone = ends.head.kept + (isPost(shape) && !isAgain ? residual + statistics : 0);
  return Math.max(ends.head.inBackward, layer - gone);
}

/**
 * The input half frees little and keeps gradients, so that the most is in its last layer, the first of the
 * chunk: all others have become what the weight half will need, and this one is whole, computed again or not.
 */
function growthOfInputHalf(shape: MemoryShape, part: Part & { readonly untilInput: number }): number {
  const { chunk, sizes, ends, untilInput } = part;
  const { residual, gathered, attended, widened } = sizes;
  const dropped = shape.hiddenDropout ? residual : 0;
  const whole = residual + layerInterior(sizes);
  const others = (chunk.numLayers - 1) * splitLayer(shape, sizes);
  // gradients: of the layer's result and the network's; then of activated and widened
  const feedForward = residual + dropped + widened + Math.max(widened, gathered);
  // of both sums and what they add, of the second norm's result, of widened, of attended, of query, key and
  // value
  const attention = 3 * residual + 2 * dropped + widened + 4 * attended;
  // what the layer keeps from then on, and the gradient of its input
  const end = splitLayer(shape, sizes) + residual - whole;
  const besides = ends.batch + ends.embedding.kept + ends.head.split + inputOfLayers(shape, part);
  const inLayer = others + whole + besides + Math.max(feedForward, attention, end) - untilInput;
  return chunk.isLast ? Math.max(ends.head.inBackward, inLayer) : inLayer;
}

/**
 * The weight half only frees, but for what it computes again: logits at the head, activated in the last
 * layer.
 */
function growthOfWeightHalf({ hiddenDropout }: MemoryShape, { sizes, ends }: Part): number {
  const { residual, gathered, widened } = sizes;
  const freed = residual + ends.head.split;
  return Math.max(ends.head.inWeightHalf, hiddenDropout ? residual : 0, widened + gathered - freed);
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
