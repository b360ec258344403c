import { type Slice, Variable } from '@mtl/autograd';
import { UsageError } from '@mtl/errors';
import { type Device, type DType, Tensor, type TypedArray } from '@mtl/kernels';
import type { PackedRows } from '../blocks/transformer-stage.js';
import type { SamplePacking } from './sample-packing.js';

// B samples of a micro-batch, S sequence, M room for masked tokens.

/**
 * A micro-batch for a masked language model with a sentence-order head, on the host: what @mtl/data's loader yields.
 * Tokens lie sequence first: token s of row b has the flat index s * B + b.
 */
export interface MaskedTokenBatch {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** int32 [S, B], padding at the end */
  readonly tokens: Int32Array;
  /** int32 [S, B] */
  readonly tokenTypes: Int32Array;
  /** int32 [B]: tokens of each row before its padding, at least one. */
  readonly lengths: Int32Array;
  /** int32 [M]: flat indices into [S, B] of the tokens to predict; any real one where unused. */
  readonly maskedPositions: Int32Array;
  /** int32 [M] */
  readonly maskedLabels: Int32Array;
  /** float32 [M]: 1, and 0 where unused. */
  readonly maskedWeights: Float32Array;
  /** How many of the M count in the loss. */
  readonly numMasked: number;
  /** int32 [B]: 1 where the two texts were swapped, else 0; undefined where there are no pairs. */
  readonly sentenceOrderLabels: Int32Array | undefined;
  /** [B]: global sample numbers (exact integers), which random masks depend on. */
  readonly sampleNumbers: Float64Array;
}

/** A batch on the device: the samples' tokens one after the other, T rows of them, padding left out. */
export interface DeviceMaskedBatch {
  /** int32 [T, 1] */
  readonly tokens: Variable;
  /** int32 [rows, 1]: of the rows that this process computes with between the tensor-parallel regions. */
  readonly tokenTypes: Variable;
  /** Where the samples lie; its `positions` are the position ids too. */
  readonly packed: PackedRows;
  /** int32 [M]: rows */
  readonly maskedPositions: Variable;
  readonly maskedLabels: Variable;
  /** int32 [B]: the row of each sample's first token, which is pooled. */
  readonly firstPositions: Variable;
  /** int32 [B] */
  readonly sentenceOrderLabels: Variable | undefined;
  /** float32 [M], or [M + B] with sentence order: the factor of each loss in the total. */
  readonly weights: Tensor;
  /** Views of `weights`. */
  readonly maskedWeights: Variable;
  readonly sentenceOrderWeights: Variable | undefined;
  /** int64 [B] */
  readonly samples: Variable;
  release(): void;
}

export interface MaskedBatchOptions {
  readonly device: Device;
  readonly packing: SamplePacking;
  /** The rows of this process, where they are cut over processes. */
  readonly rows: Slice;
  readonly lossFactor: number;
  /** Needed with `sentenceOrderLabels`. */
  readonly sampleLossFactor?: number | undefined;
}

/**
 * Copies a batch to the device.
 *
 * @throws UsageError MTL_STAGE without `sampleLossFactor` where it is needed
 */
export function maskedBatchToDevice(
  batch: MaskedTokenBatch,
  { device, packing, rows, lossFactor, sampleLossFactor }: MaskedBatchOptions,
): DeviceMaskedBatch {
  const { batchSize: b, maskedPositions, sentenceOrderLabels } = batch;
  if (sentenceOrderLabels !== undefined && sampleLossFactor === undefined) {
    throw new UsageError('MTL_STAGE', 'a loss a sample (sentence order) without sampleLossFactor');
  }
  const numMasked = maskedPositions.length;
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const upload = (values: TypedArray, dtype: DType, shape: readonly number[]): Variable =>
    constant(Tensor.from(values, { shape, dtype, device }));
  const ids = (values: Int32Array, shape: readonly number[]): Variable => upload(values, 'int32', shape);
  const factorsOfAll = new Float32Array(numMasked + (sentenceOrderLabels === undefined ? 0 : b));
  for (let index = 0; index < numMasked; index++)
    factorsOfAll[index] = batch.maskedWeights[index]! * lossFactor;
  if (sampleLossFactor !== undefined) factorsOfAll.fill(sampleLossFactor, numMasked);
  const weights = Tensor.from(factorsOfAll, { shape: [factorsOfAll.length], dtype: 'float32', device });
  const sampleNumbers = BigInt64Array.from(Array.from(batch.sampleNumbers, BigInt));
  const own = [rows.end - rows.start, 1];
  const { starts, longest, numScores } = packing;
  const flat = (position: number): number => starts[position % b]! + Math.floor(position / b);
  const coordinates = {
    starts: ids(starts, [b + 1]),
    positions: ids(packing.positions.subarray(rows.start, rows.end), own),
    samples: upload(
      BigInt64Array.from(packing.rowSamples.subarray(rows.start, rows.end), (row) => sampleNumbers[row]!),
      ...(['int64', own] as const),
    ),
  };
  const variables = {
    tokens: ids(packing.packed(batch.tokens), [packing.numRows, 1]),
    tokenTypes: ids(packing.packed(batch.tokenTypes).subarray(rows.start, rows.end), own),
    maskedPositions: ids(maskedPositions.map(flat), [numMasked]),
    maskedLabels: ids(batch.maskedLabels, [numMasked]),
    firstPositions: ids(starts.subarray(0, b), [b]),
    sentenceOrderLabels: sentenceOrderLabels && ids(sentenceOrderLabels, [b]),
    maskedWeights: constant(weights.rows(0, numMasked)),
    sentenceOrderWeights: sentenceOrderLabels && constant(weights.rows(numMasked, numMasked + b)),
    samples: upload(sampleNumbers, 'int64', [b]),
  };
  return {
    ...variables,
    packed: { ...coordinates, longest, numScores },
    weights,
    release: () => {
      weights.dispose();
      for (const variable of [...Object.values(variables), ...Object.values(coordinates)])
        variable?.release();
    },
  };
}
