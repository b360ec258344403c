import { type PackedRows, Variable } from '@mtl/autograd';
import type { Device, Slice } from '@mtl/kernels';
import type { Upload } from '@mtl/pipeline';
import { neededTokens } from '../blocks/needed-tokens.js';
import type { PositionTables } from '../blocks/position-tables.js';
import { type RowCoordinate, RowCoordinates } from '../blocks/row-coordinates.js';
import { uploadConstant } from '../blocks/upload-constant.js';
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
  /** The coordinates of rows that passes read. */
  readonly reads: ReadonlySet<RowCoordinate>;
  /** Where the tables among them are. */
  readonly tables: PositionTables;
  /**
   * Copies them where passes are to be launched again with other samples: the attributes of operations then
   * fit all samples of as many tokens and rows.
   */
  readonly upload?: Upload | undefined;
}

/**
 * Copies sequences to the device, packed; the caller's to release, those of `packed` too.
 *
 * @throws UsageError MTL_STAGE when the first stage gets none
 */
export function sequencesToDevice(
  batch: TokenSequences,
  { device, packing, own, isFirst, reads, tables, upload }: DeviceSequencesOptions,
): Omit<DeviceSequences, 'release'> {
  const { numRows: r, sequenceLength } = batch;
  const { starts, numScores } = packing;
  // attention is launched for the longest sample; a bound launches blocks that find nothing to do
  const bound = Math.min(sequenceLength, packing.numRows);
  const longest = upload === undefined ? packing.longest : bound;
  const ids = (values: Int32Array, shape: readonly number[]): Variable =>
    uploadConstant(values, { shape, dtype: 'int32', device, upload });
  const packed = (values: Int32Array | undefined): Int32Array => packing.packed(neededTokens(values));
  const rowNumbers = BigInt64Array.from(Array.from(batch.rowNumbers, BigInt));
  const shape = [own.end - own.start, 1];
  const host = {
    shape: [packing.numRows, 1] as const,
    numPositions: sequenceLength,
    positionOf: (row: number) => packing.positions[row]!,
    sampleOf: (row: number) => rowNumbers[packing.rowSamples[row]!]!,
  };
  return {
    tokens: isFirst ? ids(packed(batch.tokens), [packing.numRows, 1]) : undefined,
    tokenTypes: isFirst ? ids(packed(batch.tokenTypes).subarray(own.start, own.end), shape) : undefined,
    packed: {
      longest,
      numScores,
      starts: ids(starts, [r + 1]),
    },
    rows: RowCoordinates.upload(host, { reads, tables, own, device, upload }),
    firstPositions: ids(starts.subarray(0, r), [r]),
    samples: uploadConstant(rowNumbers, { shape: [r], dtype: 'int64', device, upload }),
    variant: upload === undefined ? undefined : `samples of at most ${bound} rows`,
  };
}

/** Releases sequences and the other variables of a batch on the device. */
export function releaseSequences(
  batch: Readonly<Record<string, Variable | string | undefined | PackedRows | RowCoordinates>>,
): void {
  for (const value of Object.values(batch)) {
    if (value instanceof RowCoordinates) value.release();
    const variables = value instanceof Variable ? [value] : Object.values(value ?? {});
    for (const variable of variables) if (variable instanceof Variable) variable.release();
  }
}
