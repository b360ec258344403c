import { Variable } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import { type Device, type DType, Tensor, type TypedArray } from '@mtl/kernels';
import type { Upload } from '@mtl/pipeline';
import { neededTokens } from '../blocks/needed-tokens.js';
import type { PackedRows, RowCoordinates } from '../blocks/transformer-stage.js';
import type { SamplePacking } from './sample-packing.js';

// S sequence, R rows: one for each sample, or several where a sample has several sequences; T tokens of all
// rows.

/** Token sequences on the host, sequence first: token s of row r has the flat index s * R + r. */
export interface TokenSequences {
  readonly numRows: number;
  readonly sequenceLength: number;
  /** int32 [S, R], padding at the end; the first stage needs them, as the types. */
  readonly tokens?: Int32Array | undefined;
  /** int32 [S, R] */
  readonly tokenTypes?: Int32Array | undefined;
  /** int32 [R]: tokens of each row before its padding, at least one. */
  readonly lengths: Int32Array;
  /** `[R]`: unique numbers (exact integers) of rows in a training run; random masks depend on them. */
  readonly rowNumbers: Float64Array;
}

/**
 * What the embeddings and the layers of a BERT read, on the device: rows one after the other, T in all,
 * padding left out.
 */
export interface DeviceSequences {
  /** int32 [T, 1]; on the first stage. */
  readonly tokens: Variable | undefined;
  /**
   * int32 [own, 1]: of those of the T that this process computes with between the tensor-parallel regions;
   * likewise.
   */
  readonly tokenTypes: Variable | undefined;
  /** Where the rows are. */
  readonly packed: PackedRows;
  /** The positions are the position ids too. */
  readonly rows: RowCoordinates;
  /** int32 [R]: where each row's first token is, which is pooled. */
  readonly firstPositions: Variable;
  /** int64 [R] */
  readonly samples: Variable;
  /** As that of `LoadedBatch`: the bound on the longest sample that attention gets. */
  readonly variant: string | undefined;
  release(): void;
}

export interface DeviceSequencesOptions {
  readonly device: Device;
  readonly packing: SamplePacking;
  /** Those of the T that this process computes with, where they are sharded. */
  readonly own: Slice;
  /** Whether they are embedded here. */
  readonly isFirst: boolean;
  /**
   * Copies them where passes are to be launched again with other samples: the attributes of operations then
   * fit all samples of as many tokens and rows.
   */
  readonly upload?: Upload | undefined;
}

/** A constant on the device. */
export function uploadConstant(
  values: TypedArray,
  {
    upload = Tensor.from,
    ...options
  }: { shape: readonly number[]; dtype: DType; device: Device; upload?: Upload | undefined },
): Variable {
  return new Variable(upload(values, options), { requiresGradient: false });
}

/**
 * Copies sequences to the device, packed; the caller's to release, those of `packed` too.
 *
 * @throws UsageError MTL_STAGE when the first stage gets none
 */
export function sequencesToDevice(
  batch: TokenSequences,
  { device, packing, own, isFirst, upload }: DeviceSequencesOptions,
): Omit<DeviceSequences, 'release'> {
  const { numRows: r, sequenceLength } = batch;
  const { starts, numScores } = packing;
  // attention is launched for the longest sample; a bound launches blocks that find nothing to do
  const bound = Math.min(sequenceLength, packing.numRows);
  const longest = upload === undefined ? packing.longest : bound;
  const ids = (values: Int32Array, shape: readonly number[]): Variable =>
    uploadConstant(values, { shape, dtype: 'int32', device, upload });
  const long = (values: BigInt64Array, shape: readonly number[]): Variable =>
    uploadConstant(values, { shape, dtype: 'int64', device, upload });
  const packed = (values: Int32Array | undefined): Int32Array => packing.packed(neededTokens(values));
  const rowNumbers = BigInt64Array.from(Array.from(batch.rowNumbers, BigInt));
  const shape = [own.end - own.start, 1];
  const ownSamples = packing.rowSamples.subarray(own.start, own.end);
  return {
    tokens: isFirst ? ids(packed(batch.tokens), [packing.numRows, 1]) : undefined,
    tokenTypes: isFirst ? ids(packed(batch.tokenTypes).subarray(own.start, own.end), shape) : undefined,
    packed: {
      longest,
      numScores,
      starts: ids(starts, [r + 1]),
    },
    rows: {
      positions: ids(packing.positions.subarray(own.start, own.end), shape),
      samples: long(
        BigInt64Array.from(ownSamples, (row) => rowNumbers[row]!),
        shape,
      ),
    },
    firstPositions: ids(starts.subarray(0, r), [r]),
    samples: long(rowNumbers, [r]),
    variant: upload === undefined ? undefined : `samples of at most ${bound} rows`,
  };
}

/** Releases sequences and the other variables of a batch on the device. */
export function releaseSequences(
  batch: Readonly<Record<string, Variable | string | undefined | PackedRows | RowCoordinates>>,
): void {
  for (const value of Object.values(batch)) {
    const variables = value instanceof Variable ? [value] : Object.values(value ?? {});
    for (const variable of variables) if (variable instanceof Variable) variable.release();
  }
}
