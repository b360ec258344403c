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

// In the shapes below, S is the sequence length, R the number of rows (a sample has one row for each of its
// sequences) and T the number of tokens in all rows. If several ranks share T or R, each rank owns an equal
// share.

/** Token sequences on the host, sequence first: token s of row r has the flat index s * R + r. */
interface TokenSequences {
  readonly numRows: number;
  readonly sequenceLength: number;
  /** int32 [S, R], with padding at the end of each row. Only the first stage needs tokens and token types. */
  readonly tokens?: Int32Array | undefined;
  /** int32 [S, R] */
  readonly tokenTypes?: Int32Array | undefined;
  /** int32 [R]: how many tokens each row has before its padding, at least one. */
  readonly lengths: Int32Array;
  /** [R]: the rows' indices, unique in a training run (exact integers). Random masks depend on them. */
  readonly rowNumbers: Float64Array;
}

/**
 * The device tensors that a BERT's embeddings and layers read. Rows are packed one after another into T
 * tokens, without padding. Each rank has the tokens that it owns.
 */
export interface DeviceSequences {
  /** int32 [T, 1]; only on the first stage. */
  readonly tokens: Variable | undefined;
  /**
   * int32 [own, 1]: the token types in a slice of this rank's tokens. This process computes the slice between
   * the tensor-parallel regions. Only the first stage has token types.
   */
  readonly tokenTypes: Variable | undefined;
  readonly ownRows: OwnRows;
  /** The coordinates of the tokens. The coordinate `positions` also serves as the position id. */
  readonly rows: RowCoordinates;
  /**
   * int32 [R]: the index of each row's first token, which the pooler reads. It is 0 if this rank does not own
   * the token.
   */
  readonly firstPositions: Variable;
  /** int64 [R]: the numbers of the rows. */
  readonly samples: Variable;
  /** A description of the upper bound on the longest row's length, for attention (see `LoadedBatch`). */
  readonly variant: string | undefined;
  release(): void;
}

export interface DeviceSequencesOptions {
  readonly device: Device;
  readonly packing: SamplePacking;
  readonly partition: SequencePartition;
  /** The slice of the owned tokens that this process computes between the tensor-parallel regions. */
  readonly own: Slice;
  /** True if this stage embeds the tokens. */
  readonly isFirst: boolean;
  /** The row coordinates that the forward and backward passes read. Only these are uploaded. */
  readonly reads: ReadonlySet<RowCoordinate>;
  /** The position tables for the coordinates in `reads`. */
  readonly tables: PositionTables;
  /**
   * Uploads the tensors for recorded forward and backward passes, which are launched again with new samples.
   * If it is defined, the attributes of operations are valid for all samples with equally many tokens and
   * rows.
   */
  readonly upload?: Upload | undefined;
}

/** Maps the index of a packed token to its index among the tokens that this rank owns. */
export class PlacesOfRows {
  readonly #places: Int32Array | undefined;

  /**
   * @param indices for each token of this rank, its index among all packed tokens; undefined if this rank
   *   owns all tokens
   */
  constructor(indices: Int32Array | undefined, numRows: number) {
    if (indices === undefined) return;
    this.#places = new Int32Array(numRows).fill(-1);
    indices.forEach((index, row) => {
      this.#places![index] = row;
    });
  }

  /** True if this rank owns all packed tokens. */
  get areAll(): boolean {
    return this.#places === undefined;
  }

  /**
   * Returns the index of a packed token among this rank's tokens. Returns undefined if this rank does not own
   * the token.
   */
  of(row: number): number | undefined {
    const place = this.#places === undefined ? row : this.#places[row]!;
    return place < 0 ? undefined : place;
  }
}

/**
 * Packs sequences and copies them to the device. The caller must release the result's tensors.
 *
 * @throws UsageError MTL_STAGE if tokens or token types are missing on the first stage
 */
export function sequencesToDevice(
  batch: TokenSequences,
  options: DeviceSequencesOptions,
): Omit<DeviceSequences, 'release'> & { readonly places: PlacesOfRows } {
  const { device, packing, partition, own, isFirst, reads, tables, upload } = options;
  const { numRows: r, sequenceLength } = batch;
  // attention is launched for the longest row. If only an upper bound on its length is known, some thread
  // blocks have no work
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

/** Releases the device variables of a batch. */
export function releaseSequences(
  batch: Readonly<Record<string, Variable | string | undefined | OwnRows | RowCoordinates>>,
): void {
  for (const value of Object.values(batch)) {
    if (typeof value === 'object') value.release();
  }
}
