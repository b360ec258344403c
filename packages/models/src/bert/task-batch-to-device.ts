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

// In the shapes below, B is the number of samples in a micro-batch, C the number of choices per sample (1
// except for multiple choice), R = B * C the number of rows, and S the sequence length.

/** The targets of a head: a label and a loss weight for each of the head's decisions. */
export interface TaskTargets {
  readonly labels: Int32Array;
  readonly weights: Float32Array;
}

/** A micro-batch of a fine-tuning run, on the device. */
export interface DeviceTaskBatch extends DeviceSequences {
  /**
   * int32 [N] labels; `weights` are their float32 [N] loss factors. There is one entry for each of the head's
   * decisions.
   */
  readonly labels: Variable;
  readonly weights: Variable;
  /**
   * [1, R]: the coordinates of the head's rows, from which the random numbers for its dropout are computed.
   * The position in every row is 0. A head without dropout does not read the coordinates.
   */
  readonly headRows: RowCoordinates;
  readonly numRows: number;
  readonly sequenceLength: number;
  /**
   * How many tokens each row has before its padding. `starts` contains the index of each row's first token.
   */
  readonly lengths: Int32Array;
  readonly starts: Int32Array;
}

/**
 * Copies the fields of a fine-tuning batch that a stage needs to the device, together with the labels for its
 * head.
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
  // a sample's choices get different row indices, so that their dropout masks differ
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
