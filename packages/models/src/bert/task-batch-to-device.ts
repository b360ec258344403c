import type { Variable } from '@mtl/autograd';
import type { TaskTokenBatch } from '@mtl/layout';
import { RowCoordinates } from '../blocks/row-coordinates.js';
import { uploadConstant } from '../blocks/upload-constant.js';
import {
  type DeviceSequences,
  type DeviceSequencesOptions,
  releaseSequences,
  sequencesToDevice,
} from './device-sequences.js';

// B: samples of a micro-batch. C: choices per sample (1 except for multiple choice). R = B * C: rows. S:
// sequence length.

/** The targets of a head: a label and a loss weight for each decision of the head. */
export interface TaskTargets {
  readonly labels: Int32Array;
  readonly weights: Float32Array;
}

/** A batch of a fine-tuning run on the device. */
export interface DeviceTaskBatch extends DeviceSequences {
  /** int32 [N] labels and float32 [N] loss factors, one for each decision of the head. */
  readonly labels: Variable;
  readonly weights: Variable;
  /**
   * [1, R]: the coordinates of the head's rows, for the random numbers of its dropout. The position in every
   * row is 0. A head without dropout does not read them.
   */
  readonly headRows: RowCoordinates;
  readonly numRows: number;
  readonly sequenceLength: number;
  /** The number of tokens in each row before its padding, and the index of each row's first token. */
  readonly lengths: Int32Array;
  readonly starts: Int32Array;
}

/**
 * Copies the fields of a fine-tuning batch that a stage needs to the device, with the labels for its head.
 */
export function taskBatchToDevice(
  batch: TaskTokenBatch,
  {
    targets,
    dropsInHead,
    ...sequences
  }: DeviceSequencesOptions & {
    readonly targets: TaskTargets;
    /** True if the head applies dropout. */
    readonly dropsInHead: boolean;
  },
): DeviceTaskBatch {
  const { batchSize, numChoices, sampleNumbers, sequenceLength, lengths } = batch;
  const numRows = batchSize * numChoices;
  const { device, packing, upload } = sequences;
  // the choices of a sample get different row numbers, so that their dropout masks differ
  const rowNumbers = Float64Array.from(
    { length: numRows },
    (_, row) => sampleNumbers[Math.floor(row / numChoices)]! * numChoices + (row % numChoices),
  );
  const shape = [targets.labels.length];
  const headReads = new Set(dropsInHead ? (['positions', 'samples'] as const) : []);
  const host = {
    shape: [1, numRows] as const,
    numPositions: 1,
    findPosition: () => 0,
    findSample: (row: number) => BigInt(rowNumbers[row]!),
  };
  const { places: _, ...ofRows } = sequencesToDevice({ ...batch, numRows, rowNumbers }, sequences);
  const variables = {
    ...ofRows,
    labels: uploadConstant(targets.labels, { shape, dtype: 'int32', device, upload }),
    weights: uploadConstant(targets.weights, { shape, dtype: 'float32', device, upload }),
    headRows: RowCoordinates.upload(host, { reads: headReads, own: { start: 0, end: 1 }, device, upload }),
  };
  return {
    ...variables,
    numRows,
    sequenceLength,
    lengths,
    starts: packing.starts,
    release: () => releaseSequences(variables),
  };
}
