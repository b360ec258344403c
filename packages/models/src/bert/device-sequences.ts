import type { Variable } from '@mtl/autograd';
import type { Device } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { Upload } from '@mtl/pipeline';
import type { PositionTables } from '../blocks/position-tables.js';
import { type RowCoordinate, RowCoordinates } from '../blocks/row-coordinates.js';
import type { OwnRows, SequencePartition } from '../blocks/sequence-partition.js';
import { uploadConstant } from '../blocks/upload-constant.js';
import { neededTokens } from '../stages/stage-call.js';
import type { SamplePacking } from './sample-packing.js';

// S: sequence length. R: rows, one for each sample, or several if a sample has several sequences. T: tokens
// of all rows. Ranks that share T or R each own an equal share.

/** Token sequences on the host, sequence first: token s of row r has the flat index s * R + r. */
interface TokenSequences {
  readonly numRows: number;
  readonly sequenceLength: number;
  /** int32 [S, R], padding at the end. The first stage needs tokens and token types. */
  readonly tokens?: Int32Array | undefined;
  /** int32 [S, R] */
  readonly tokenTypes?: Int32Array | undefined;
  /** int32 [R]: tokens of each row before its padding, at least one. */
  readonly lengths: Int32Array;
  /** `[R]`: unique numbers (exact integers) of rows in a training run; random masks depend on them. */
  readonly rowNumbers: Float64Array;
}

/**
 * The device tensors that the embeddings and the layers of a BERT read. The samples are packed one after the
 * other into T rows, without padding; each rank has the rows that it owns.
 */
export interface DeviceSequences {
  /** int32 [T, 1]; on the first stage. */
  readonly tokens: Variable | undefined;
  /**
   * int32 [own, 1]: types of the owned tokens that this process computes between the tensor-parallel regions;
   * on the first stage.
   */
  readonly tokenTypes: Variable | undefined;
  readonly ownRows: OwnRows;
  /** The coordinates of the rows; their positions are also the position ids. */
  readonly rows: RowCoordinates;
  /** int32 [R]: the index of each row's first token, which is pooled; 0 if another rank owns the token. */
  readonly firstPositions: Variable;
  /** int64 [R]: the numbers of the rows. */
  readonly samples: Variable;
  /** The bound on the longest sample, which attention gets: see `LoadedBatch`. */
  readonly variant: string | undefined;
  release(): void;
}

export interface DeviceSequencesOptions {
  readonly device: Device;
  readonly packing: SamplePacking;
  readonly partition: SequencePartition;
  /** The slice of the owned rows that this process computes with, if rows are sharded. */
  readonly own: Slice;
  /** True if this stage embeds the tokens. */
  readonly isFirst: boolean;
  /** The coordinates of rows that passes read. */
  readonly reads: ReadonlySet<RowCoordinate>;
  /** The position tables for the coordinates in `reads`. */
  readonly tables: PositionTables;
  /**
   * Uploads the tensors for passes that are launched again with other samples. The attributes of operations
   * then fit all samples with the same number of tokens and rows.
   */
  readonly upload?: Upload | undefined;
}

/** Maps packed rows to their indices among the rows that this rank owns. */
export class PlacesOfRows {
  readonly #places: Int32Array | undefined;

  /** @param indices of this rank's rows among all rows; undefined: this rank owns all rows */
  constructor(indices: Int32Array | undefined, numRows: number) {
    if (indices === undefined) return;
    this.#places = new Int32Array(numRows).fill(-1);
    indices.forEach((index, row) => {
      this.#places![index] = row;
    });
  }

  /** Returns whether this rank owns all rows. */
  get areAll(): boolean {
    return this.#places === undefined;
  }

  /**
   * Returns the index of a row among the rows that this rank owns; undefined if another rank owns the row.
   */
  of(row: number): number | undefined {
    const place = this.#places === undefined ? row : this.#places[row]!;
    return place < 0 ? undefined : place;
  }
}

/**
 * Copies sequences to the device, packed. The caller releases the result, and the tensors that `packed`
 * returns.
 *
 * @throws UsageError MTL_STAGE when the first stage gets no tokens
 */
export function sequencesToDevice(
  batch: TokenSequences,
  options: DeviceSequencesOptions,
): Omit<DeviceSequences, 'release'> & { readonly places: PlacesOfRows } {
  const { device, packing, partition, own, isFirst, reads, tables, upload } = options;
  const { numRows: r, sequenceLength } = batch;
  // attention is launched for the longest sample; for an upper bound, some launched blocks have no work
  const bound = Math.min(sequenceLength, packing.numRows);
  const longest = upload === undefined ? packing.longest : bound;
  const ids = (values: Int32Array, shape: readonly number[]): Variable =>
    uploadConstant(values, { shape, dtype: 'int32', device, upload });
  const { numRows, starts, numScores } = packing;
  const ownRows = partition.ofPackedSamples(
    { numRows, starts, longest, numScores, sampleNumbers: batch.rowNumbers },
    { device, upload },
  );
  const { indices } = ownRows;
  const numOwn = indices?.length ?? numRows;
  const findIndex = (row: number): number => indices?.[row] ?? row;
  const packed = (values: Int32Array | undefined): Int32Array => {
    const all = packing.packed(neededTokens(values));
    return indices === undefined ? all : indices.map((index) => all[index]!);
  };
  const places = new PlacesOfRows(indices, numRows);
  const rowNumbers = BigInt64Array.from(Array.from(batch.rowNumbers, BigInt));
  const shape = [own.end - own.start, 1];
  const host = {
    shape: [numOwn, 1] as const,
    numPositions: sequenceLength,
    findPosition: (row: number) => packing.positions[findIndex(row)]!,
    findSample: (row: number) => rowNumbers[packing.rowSamples[findIndex(row)]!]!,
  };
  return {
    tokens: isFirst ? ids(packed(batch.tokens), [numOwn, 1]) : undefined,
    tokenTypes: isFirst ? ids(packed(batch.tokenTypes).subarray(own.start, own.end), shape) : undefined,
    ownRows,
    rows: RowCoordinates.upload(host, { reads, tables, own, device, upload }),
    firstPositions: ids(
      starts.subarray(0, r).map((start) => places.of(start) ?? 0),
      [r],
    ),
    samples: uploadConstant(rowNumbers, { shape: [r], dtype: 'int64', device, upload }),
    variant: upload === undefined ? undefined : `samples of at most ${bound} rows`,
    places,
  };
}

/** Releases sequences and the other variables of a batch on the device. */
export function releaseSequences(
  batch: Readonly<Record<string, Variable | string | undefined | OwnRows | RowCoordinates>>,
): void {
  for (const value of Object.values(batch)) {
    if (typeof value === 'object') value.release();
  }
}
