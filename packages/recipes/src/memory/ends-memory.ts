import type { MemoryShape } from './memory-shape.js';
import type { TensorSizes } from './tensor-sizes.js';

/**
 * What stands before and after the layers of a chunk, in bytes of one micro-batch; zeros where it stands
 * elsewhere.
 */
export interface EndsMemory {
  /** Ids, places, labels and losses, until the last pass. */
  readonly batch: number;
  readonly embedding: {
    /** What forward keeps for backward, the first layer's input left out. */
    readonly kept: number;
    /** What is kept between the halves of backward. */
    readonly split: number;
  };
  readonly head: {
    readonly kept: number;
    readonly split: number;
    /** The most that backward adds there, while all that forward has kept is still there. */
    readonly inBackward: number;
    /** The most that the weight half adds. */
    readonly inWeightHalf: number;
  };
}

interface Chunk {
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

interface EndsOptions {
  readonly chunk: Chunk;
  readonly sizes: TensorSizes;
}

const nothing = { kept: 0, split: 0, inBackward: 0, inWeightHalf: 0 };

export function endsMemory(shape: MemoryShape, options: EndsOptions): EndsMemory {
  return shape.bert === undefined ? gptEnds(options) : bertEnds({ ...shape, bert: shape.bert }, options);
}

/** Positions and tokens; the final norm with its input, and the logits of all tokens. */
function gptEnds({ chunk, sizes }: EndsOptions): EndsMemory {
  const { rows, residual, gathered, statistics, logits } = sizes;
  const finalNorm = residual + statistics;
  return {
    batch: (chunk.isFirst ? 8 * rows : 0) + (chunk.isLast ? 12 * rows : 0),
    embedding: { kept: 0, split: chunk.isFirst ? residual : 0 },
    head: chunk.isLast
      ? {
          kept: finalNorm,
          // what the norm made of its input, and that one's gradient
          split: finalNorm + 2 * residual,
          // the normalized input again, its gradient, and one chunk of logits
          inBackward: 2 * Math.max(residual, gathered) + logits,
          inWeightHalf: gathered + logits,
        }
      : nothing,
  };
}

/** Tokens, types and places of packed samples; heads that read masked rows and first rows only. */
function bertEnds(
  shape: MemoryShape & { readonly bert: NonNullable<MemoryShape['bert']> },
  { chunk, sizes }: EndsOptions,
): EndsMemory {
  const { bert, bytesPerElement: e, hiddenSize: H, microBatchSize: B } = shape;
  const { rows, residualRows, rowsOfHead: M, residual, statistics, logits } = sizes;
  const { sentenceOrderHead } = bert;
  const isPost = bert.layerNormPlacement === 'post';
  // positions and sample numbers of every row, so that each layer knows its masks; the first chunk embeds
  // positions
  const places = (shape.hiddenDropout ? 12 : chunk.isFirst ? 4 : 0) * residualRows;
  const targets = 16 * M + 8 * B;
  const masked = M * e * H;
  const first = sentenceOrderHead ? B * e * H : 0;
  // with norms before the sublayers the final one stands here: of the rows that were gathered
  const norms = (isPost ? 1 : 2) * 8 * M;
  // gathered rows, and what dense layers made of them
  const kept = 2 * masked + 2 * first + norms;
  // gradients of gathered rows become gradients of all rows: in float32, then as activations; of both heads
  // summed
  const scattered = 4 * residualRows * H + (e === 2 ? residual : 0) + (sentenceOrderHead ? residual : 0);
  return {
    batch: places + (chunk.isFirst ? 4 * rows + 4 * residualRows : 0) + (chunk.isLast ? targets : 0),
    embedding: chunk.isFirst
      ? {
          // after the embedding stands a norm
          kept: isPost ? residual + statistics : 0,
          split: residual + (isPost ? 2 * residual + statistics : 0),
        }
      : nothing,
    head: chunk.isLast
      ? {
          kept,
          split: kept + 3 * masked + 2 * first,
          inBackward: Math.max(3 * masked + logits, scattered + masked),
          inWeightHalf: 2 * masked + logits,
        }
      : nothing,
  };
}
