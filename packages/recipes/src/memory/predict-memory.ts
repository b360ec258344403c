import type { Recomputation } from '@mtl/models';
import { type PipelineSchedule, peakActivations } from '@mtl/pipeline/schedules';

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
  /** Absent: all layers on one rank, one micro-batch at a time. */
  readonly pipeline?: PipelineShape | undefined;
}

/** How a model lies on the ranks of a pipeline, and in which order these work. */
export interface PipelineShape {
  readonly schedule: PipelineSchedule;
  /** Layers of each chunk, in the order of the model. */
  readonly numLayers: readonly number[];
}

/** A piece of the model. */
interface Chunk {
  readonly numLayers: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** Bytes of one rank, by what they are for. */
export interface MemoryPrediction {
  /** Parameters as the model computes with them. */
  readonly parameters: number;
  /** float32 main gradients. */
  readonly gradients: number;
  /** float32 master weights (where they are not the parameters themselves) and both moments of AdamW. */
  readonly optimizer: number;
  /** What forward keeps for backward, of all micro-batches that are under way at once. */
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
  return predictStages(shape).reduce((most, each) => (each.total > most.total ? each : most));
}

/**
 * Bytes of each rank of a pipeline: of its own layers, with the activations of as many micro-batches as its schedule has
 * under way at once. Of a micro-batch whose weight half is to come it keeps what the products have read and the gradients
 * of what they have made: counted as if all of that were there at once, which it is not quite. Boundary tensors lie ready
 * besides, one that came early and one that is being used.
 */
export function predictStages(shape: MemoryShape): readonly MemoryPrediction[] {
  const { pipeline } = shape;
  const counts = pipeline?.numLayers ?? [shape.numLayers];
  const chunks = counts.map(
    (numLayers, index): Chunk => ({
      numLayers,
      isFirst: index === 0,
      isLast: index === counts.length - 1,
    }),
  );
  if (pipeline === undefined)
    return [predictRank(shape, { chunks, activations: keptActivations(shape, chunks[0]!) })];
  const { schedule } = pipeline;
  const peaks = peakActivations(schedule, {
    untilInput: chunks.map((chunk) => keptActivations(shape, chunk)),
    untilWeight: chunks.map((chunk) => keptForWeights(shape, chunk)),
  });
  return peaks.map(({ size }, rank) => {
    const own = chunks.filter((_, chunk) => schedule.placement[chunk] === rank);
    return predictRank(shape, { chunks: own, activations: size });
  });
}

function predictRank(
  shape: MemoryShape,
  { chunks, activations }: { readonly chunks: readonly Chunk[]; readonly activations: number },
): MemoryPrediction {
  const numParameters = parametersOf(shape, chunks);
  const half = shape.bytesPerElement === 2;
  const parameters = shape.bytesPerElement * numParameters;
  const gradients = 4 * numParameters;
  const optimizer = ((half ? 12 : 8) * numParameters) / shape.optimizerShards;
  const temporary = Math.max(
    ...chunks.map((chunk) => largestTemporary(shape, chunk) + boundaryBytes(shape, chunk)),
  );
  const total = parameters + gradients + optimizer + activations + temporary;
  return { parameters, gradients, optimizer, activations, temporary, total };
}

function parametersOf(shape: MemoryShape, chunks: readonly Chunk[]): number {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t } = shape;
  const matrices = 4 * H * H + 2 * H * F + 3 * H + F;
  const replicated = 6 * H; // both norms, and the biases of the row-parallel products
  const isFirst = chunks.some((chunk) => chunk.isFirst);
  const isLast = chunks.some((chunk) => chunk.isLast);
  const numTables = isFirst && isLast && shape.tieEmbeddings ? 1 : Number(isFirst) + Number(isLast);
  const tables = (numTables * V * H) / t + (isFirst ? shape.maxPositionEmbeddings * H : 0);
  const numLayers = chunks.reduce((sum, chunk) => sum + chunk.numLayers, 0);
  return numLayers * (matrices / t + replicated) + tables + (isLast ? 2 * H : 0);
}

/** What came early, and the gradient that is being used: the last chunk gets none. */
function boundaryBytes(shape: MemoryShape, { isLast }: Chunk): number {
  if (shape.pipeline === undefined) return 0;
  return (isLast ? 1 : 2) * residualBytes(shape);
}

/** The residual stream of one micro-batch: what stages pass on. */
function residualBytes(shape: MemoryShape): number {
  return residualRows(shape) * shape.bytesPerElement * shape.hiddenSize;
}

/** What a chunk keeps of a micro-batch between the input half and the weight half of its backward. */
function keptForWeights(shape: MemoryShape, { numLayers, isFirst, isLast }: Chunk): number {
  const { hiddenSize: H, ffnHiddenSize: F, tensorParallelSize: t, bytesPerElement } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  // inputs of both norms, from which those of the products are made again; gradients of what both norms, both projections
  // back into the residual stream and both additions to it have made
  const residual = 8 * residualRows(shape) * H;
  // attention output, gradient of query, key and value; widened activations and their gradient
  const layer = bytesPerElement * (residual + (rows * (4 * H + 2 * F)) / t) + 16 * residualRows(shape);
  // gradients of the embedding's result; the final norm's input and the gradient of its result
  const ends = Number(isFirst) + 2 * Number(isLast);
  return numLayers * layer + ends * residualBytes(shape);
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

function keptActivations(shape: MemoryShape, chunk: Chunk): number {
  const { recomputation } = shape;
  const { numLayers: L, isFirst, isLast } = chunk;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const residual = residualBytes(shape);
  // ids; labels, weights and losses
  const tokens = (isFirst ? 8 * rows : 0) + (isLast ? 12 * rows : 0);
  // of one micro-batch at a time the final norm's is gone when most is alive: see largestTemporary
  const ends = tokens + (isLast && shape.pipeline !== undefined ? finalNormBytes(shape) : 0);
  if (recomputation.granularity !== 'full') return L * (residual + layerInterior(shape)) + ends;
  const { method, numLayers } = recomputation;
  const numWhole = method === 'block' ? Math.max(0, L - numLayers) : 0;
  const numInputs = method === 'block' ? L : Math.ceil(L / numLayers);
  return numInputs * residual + numWhole * layerInterior(shape) + ends;
}

/** The final norm's input and statistics. */
function finalNormBytes(shape: MemoryShape): number {
  return residualBytes(shape) + 8 * residualRows(shape);
}

function largestTemporary(shape: MemoryShape, chunk: Chunk): number {
  const { hiddenSize: H, ffnHiddenSize: F, vocabSize: V, tensorParallelSize: t, bytesPerElement } = shape;
  const rows = shape.sequenceLength * shape.microBatchSize;
  const residual = residualBytes(shape);
  const gathered = shape.sequenceParallel ? rows * bytesPerElement * H : 0;
  const logits = (rows * bytesPerElement * V) / t;
  const numChunks = Math.max(1, Math.ceil(logits / logitChunkBytes));
  // kept until the final norm's turn in backward comes
  const finalNorm = shape.pipeline === undefined ? finalNormBytes(shape) : 0;
  // the normalized input again, its gradient, one chunk of logits with its statistics
  const head = finalNorm + 2 * Math.max(residual, gathered) + (logits + 12 * rows) / numChunks;
  // by then the final norm's are gone: the gradient of the residual stream, that of the network's output, and the
  // activated and its gradient
  const feedForward =
    residual * (shape.hiddenDropout ? 2 : 1) + gathered + (2 * rows * bytesPerElement * F) / t;
  const layer = feedForward + recomputedLayers(shape, chunk);
  return chunk.isLast
    ? Math.max(head, layer - (shape.pipeline === undefined ? 0 : finalNormBytes(shape)))
    : layer;
}

/** What full recomputation builds again before the backward of a group. */
function recomputedLayers(shape: MemoryShape, { numLayers: L }: Chunk): number {
  const { recomputation } = shape;
  if (recomputation.granularity !== 'full') return 0;
  const { method, numLayers } = recomputation;
  if (method === 'block' && numLayers < L) return 0; // the last layer, where the peak is, is kept
  const group = method === 'block' ? 1 : Math.min(numLayers, L);
  const inputs = (group - 1) * residualBytes(shape);
  return group * layerInterior(shape) + inputs;
}
