import type { Variable } from '@mtl/autograd';
import type { Device } from '@mtl/kernels';
import type { SequencesOfBatch, Slice, TokenBatch } from '@mtl/layout';
import type { Upload } from '@mtl/pipeline';
import type { PositionTables } from '../blocks/position-tables.js';
import { type RowCoordinate, RowCoordinates } from '../blocks/row-coordinates.js';
import type { OwnRows, SequencePartition } from '../blocks/sequence-partition.js';
import { uploadConstant } from '../blocks/upload-constant.js';
import { neededTokens } from '../stages/stage-call.js';

/**
 * A stage's batch. The first and the last stage of a pipeline need the tokens; the stages between them need
 * only the outline.
 */
export type StageBatch = SequencesOfBatch & Partial<TokenBatch>;

/** Returns how many tokens count in the loss; 0 for an outline (a batch without tokens). */
export function numLossTokens({ lossMask }: StageBatch): number {
  let sum = 0;
  // a loop is faster here, because `reduce` calls a function for each token
  if (lossMask !== undefined) for (let at = 0; at < lossMask.length; at++) sum += lossMask[at]!;
  return sum;
}

/** Transposes a batch's arrays from [B, S] to [S, B], the layout that stages expect. */
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

/**
 * Returns the values of some rows of [S, B]. `indices` contains the flat indices of the rows; undefined means
 * all rows.
 */
function chosen<Values extends Int32Array | Float32Array>(
  values: Values,
  indices: Int32Array | undefined,
): Values {
  if (indices === undefined) return values;
  const result = values.slice(0, indices.length) as Values;
  for (let row = 0; row < indices.length; row++) result[row] = values[indices[row]!]!;
  return result;
}

/**
 * A batch on the device. Tensors are [own, B], where `own` is the number of this rank's positions in each
 * sequence, except for `samples`, which is [B], `rows` and `ownRows`.
 */
export interface DeviceBatch {
  /** The tokens; only on the first stage. */
  readonly tokens: Variable | undefined;
  /**
   * The position ids of the rows that this rank computes between the tensor-parallel regions. Only on the
   * first stage of a model with learned position embeddings.
   */
  readonly positionIds: Variable | undefined;
  /** The labels. Like `weights`, they exist only on the last stage. */
  readonly labels: Variable | undefined;
  /** float32: the loss mask multiplied by the loss factor. */
  readonly weights: Variable | undefined;
  readonly samples: Variable;
  readonly rows: RowCoordinates;
  readonly ownRows: OwnRows;
  readonly variant: string | undefined;
  release(): void;
}

/**
 * Copies the fields of a batch that a stage needs to the device.
 *
 * @throws UsageError MTL_STAGE if the batch for the first or the last stage has no tokens
 */
export function toDevice(
  batch: StageBatch,
  {
    device,
    lossFactor,
    isFirst,
    embedsPositions,
    partition,
    own,
    reads,
    tables,
    upload,
  }: {
    device: Device;
    /** The loss factor of the tokens that count. Undefined except on the last stage. */
    lossFactor: number | undefined;
    isFirst: boolean;
    /** True if the stage has learned position embeddings. */
    embedsPositions: boolean;
    /** The partition that determines which rows belong to this rank. */
    partition: SequencePartition;
    /** The slice of this rank's positions that it computes between the tensor-parallel regions. */
    own: Slice;
    /** The row coordinates that passes read. */
    reads: ReadonlySet<RowCoordinate>;
    /** The position tables that contain the coordinates in `reads`. */
    tables: PositionTables;
    upload?: Upload | undefined;
  },
): DeviceBatch {
  const { batchSize: b, sequenceLength } = batch;
  const needed = {
    tokens: isFirst ? neededTokens(batch.tokens) : undefined,
    positionIds: embedsPositions ? neededTokens(batch.positionIds) : undefined,
    labels: lossFactor === undefined ? undefined : neededTokens(batch.labels),
    lossMask: lossFactor === undefined ? undefined : neededTokens(batch.lossMask),
  };
  const ownRows = partition.ofSequences(batch, { device, upload });
  const { indices } = ownRows;
  const s = indices === undefined ? sequenceLength : indices.length / b;
  const sampleNumbers = Array.from(batch.sampleNumbers, BigInt);
  const ids = (values: Int32Array, { start, end }: Slice = { start: 0, end: s }): Variable =>
    uploadConstant(chosen(values, indices).subarray(start * b, end * b), {
      shape: [end - start, b],
      dtype: 'int32',
      device,
      upload,
    });
  const weights = (mask: Float32Array, factor: number): Variable => {
    const values = chosen(mask, indices).slice();
    for (let at = 0; at < values.length; at++) values[at]! *= factor;
    return uploadConstant(values, { shape: [s, b], dtype: 'float32', device, upload });
  };
  const variables = {
    tokens: needed.tokens && ids(needed.tokens),
    positionIds: needed.positionIds && ids(needed.positionIds, own),
    labels: needed.labels && ids(needed.labels),
    weights: needed.lossMask && weights(needed.lossMask, lossFactor!),
    samples: uploadConstant(BigInt64Array.from(sampleNumbers), {
      shape: [b],
      dtype: 'int64',
      device,
      upload,
    }),
  };
  const findIndex = (row: number): number => indices?.[row] ?? row;
  const host = {
    shape: [s, b] as const,
    numPositions: sequenceLength,
    findPosition: (row: number) => Math.floor(findIndex(row) / b),
    findSample: (row: number) => sampleNumbers[findIndex(row) % b]!,
  };
  const rows = RowCoordinates.upload(host, { reads, tables, own, device, upload });
  return {
    ...variables,
    rows,
    ownRows,
    variant: ownRows.variant,
    release: () => {
      for (const variable of Object.values(variables)) variable?.release();
      rows.release();
      ownRows.release();
    },
  };
}
