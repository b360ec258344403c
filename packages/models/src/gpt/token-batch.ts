import { Variable } from '@mtl/autograd';
import type { Slice } from '@mtl/kernels';
import { type Device, Tensor } from '@mtl/kernels';
import type { Upload } from '@mtl/pipeline';
import { neededTokens } from '../blocks/needed-tokens.js';
import type { PositionTables } from '../blocks/position-tables.js';
import { type RowCoordinate, RowCoordinates } from '../blocks/row-coordinates.js';

/** What every stage of a model needs to know of a micro-batch of token sequences. */
export interface BatchOutline {
  readonly batchSize: number;
  readonly sequenceLength: number;
  /** `[B]`: global sample numbers (exact integers), which random masks depend on. */
  readonly sampleNumbers: Float64Array;
  /** `[B, S]`: first visible key of each position, where attention stops at document boundaries. */
  readonly keyStart: Int32Array | undefined;
}

/**
 * One micro-batch of token sequences on the host, which @mtl/data's loader yields. Arrays are [S, B], as
 * activations are: token s of row b has the flat index s x B + b (`sequenceFirst` makes them of rows).
 */
export interface TokenBatch extends BatchOutline {
  readonly tokens: Int32Array;
  /** The token after each position. */
  readonly labels: Int32Array;
  /** 1 where the loss counts, 0 where it does not (padding, tokens after the end of a document). */
  readonly lossMask: Float32Array;
  readonly positionIds: Int32Array;
}

/**
 * What a stage gets: the first and the last stage of a pipeline need the tokens, those between only the
 * outline.
 */
export type StageBatch = BatchOutline & Partial<TokenBatch>;

/** The tokens of a batch whose loss counts; 0 of an outline. */
export function numLossTokens({ lossMask }: StageBatch): number {
  return lossMask?.reduce((sum, value) => sum + value, 0) ?? 0;
}

/**
 * The batch whose rows lie one after the other: of arrays [B, S] those [S, B] that a stage takes. For callers
 * that make batches of sequences themselves.
 */
export function sequenceFirst(rows: TokenBatch): TokenBatch {
  const { batchSize, sequenceLength } = rows;
  const turned = <Values extends Int32Array | Float32Array>(values: Values): Values =>
    values.map((_, at) => values[(at % batchSize) * sequenceLength + Math.floor(at / batchSize)]!) as Values;
  return {
    ...rows,
    tokens: turned(rows.tokens),
    labels: turned(rows.labels),
    lossMask: turned(rows.lossMask),
    positionIds: turned(rows.positionIds),
  };
}

interface OwnedPositions {
  readonly batchSize: number;
  /** Positions of the sequence in the order of a rank's rows. */
  readonly positions: Int32Array;
  /** Whether they are all of the sequence, in its order. */
  readonly areAll: boolean;
}

/** Of values [S, B] those of some positions, [positions, B]. */
function atPositions<Values extends Int32Array | Float32Array>(
  values: Values,
  { batchSize, positions, areAll }: OwnedPositions,
): Values {
  if (areAll) return values;
  const result = values.slice(0, positions.length * batchSize) as Values;
  positions.forEach((position, s) => {
    result.set(values.subarray(position * batchSize, (position + 1) * batchSize), s * batchSize);
  });
  return result;
}

/** Of values [B, S] those of some positions, [B, positions]. */
function chosen(values: Int32Array, { batchSize, positions, areAll }: OwnedPositions): Int32Array {
  if (areAll) return values;
  const sequence = values.length / batchSize;
  const result = new Int32Array(batchSize * positions.length);
  for (let b = 0; b < batchSize; b++) {
    positions.forEach((position, s) => {
      result[b * positions.length + s] = values[b * sequence + position]!;
    });
  }
  return result;
}

/** Of values [B, S] those of some slices, one [B, length] after the other. */
function ofSlices(values: Int32Array, { batchSize, slices }: SlicesOf): Int32Array {
  const sequence = values.length / batchSize;
  const result = new Int32Array(batchSize * slices.reduce((sum, { start, end }) => sum + end - start, 0));
  let next = 0;
  for (const { start, end } of slices) {
    for (let b = 0; b < batchSize; b++, next += end - start) {
      result.set(values.subarray(b * sequence + start, b * sequence + end), next);
    }
  }
  return result;
}

interface SlicesOf {
  readonly batchSize: number;
  readonly slices: readonly Slice[];
}

/**
 * A batch on the device; [S, B] except `samples` [B], `keyStart` [B, S] (or what the sequence partition asks
 * for, `SequencePartition.keyStartSlices`) and `rows`. Of S, those positions that this rank owns.
 */
export interface DeviceBatch {
  /** On the first stage. */
  readonly tokens: Variable | undefined;
  /**
   * [own, B], those that this rank computes with between the tensor-parallel regions: on the first stage of a
   * model that embeds positions.
   */
  readonly positionIds: Variable | undefined;
  /** On the last stage, as `weights`. */
  readonly labels: Variable | undefined;
  /** float32: loss mask times the loss factor. */
  readonly weights: Variable | undefined;
  readonly samples: Variable;
  readonly rows: RowCoordinates;
  readonly keyStart: Variable | undefined;
  /** S, of the whole sequence. */
  readonly sequenceLength: number;
  release(): void;
}

/**
 * Copies of a batch to the device what a stage needs.
 *
 * @throws UsageError MTL_STAGE when the first or the last stage gets a batch without tokens
 */
export function toDevice(
  batch: StageBatch,
  {
    device,
    lossFactor,
    isFirst,
    embedsPositions,
    positions,
    keyStartSlices,
    own,
    reads,
    tables,
    upload = Tensor.from,
  }: {
    device: Device;
    /** Of the tokens that count; undefined but on the last stage. */
    lossFactor: number | undefined;
    isFirst: boolean;
    /** Whether the stage embeds positions. */
    embedsPositions: boolean;
    /** The positions of the sequence that this rank owns, in the order of its rows. */
    positions: Int32Array;
    /** Of `keyStart`, see `SequencePartition`. */
    keyStartSlices?: readonly Slice[] | undefined;
    /** Of its rows, those that it computes with between the tensor-parallel regions. */
    own: Slice;
    /** The coordinates of rows that passes read. */
    reads: ReadonlySet<RowCoordinate>;
    /** Where the tables among them are. */
    tables: PositionTables;
    upload?: Upload | undefined;
  },
): DeviceBatch {
  const { batchSize: b, sequenceLength } = batch;
  const s = positions.length;
  const owned: OwnedPositions = {
    batchSize: b,
    positions,
    areAll: s === sequenceLength && positions.every((position, at) => position === at),
  };
  const sampleNumbers = Array.from(batch.sampleNumbers, BigInt);
  const constant = (tensor: Tensor): Variable => new Variable(tensor, { requiresGradient: false });
  const ids = (values: Int32Array, { start, end }: Slice = { start: 0, end: s }): Variable =>
    constant(
      upload(atPositions(values, owned).subarray(start * b, end * b), {
        shape: [end - start, b],
        dtype: 'int32',
        device,
      }),
    );
  const weights = (mask: Float32Array, factor: number): Variable => {
    const values = atPositions(mask, owned).map((value) => value * factor);
    return constant(upload(values, { shape: [s, b], dtype: 'float32', device }));
  };
  const keyStartOf = (values: Int32Array): Tensor => {
    if (keyStartSlices === undefined) {
      return upload(chosen(values, owned), { shape: [b, s], dtype: 'int32', device });
    }
    const all = ofSlices(values, { batchSize: b, slices: keyStartSlices });
    return upload(all, { shape: [all.length], dtype: 'int32', device });
  };
  const variables = {
    tokens: isFirst ? ids(neededTokens(batch.tokens)) : undefined,
    positionIds: embedsPositions ? ids(neededTokens(batch.positionIds), own) : undefined,
    labels: lossFactor === undefined ? undefined : ids(neededTokens(batch.labels)),
    weights: lossFactor === undefined ? undefined : weights(neededTokens(batch.lossMask), lossFactor),
    samples: constant(
      upload(BigInt64Array.from(sampleNumbers), {
        shape: [b],
        dtype: 'int64',
        device,
      }),
    ),
    keyStart: batch.keyStart && constant(keyStartOf(batch.keyStart)),
  };
  const host = {
    shape: [s, b] as const,
    numPositions: sequenceLength,
    positionOf: (index: number) => positions[Math.floor(index / b)]!,
    sampleOf: (index: number) => sampleNumbers[index % b]!,
  };
  const rows = RowCoordinates.upload(host, { reads, tables, own, device, upload });
  return {
    ...variables,
    rows,
    sequenceLength,
    release: () => {
      for (const variable of Object.values(variables)) variable?.release();
      rows.release();
    },
  };
}
