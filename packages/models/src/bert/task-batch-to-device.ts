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

// B samples of a micro-batch, C choices of a sample (1 except for multiple choice), R = B * C rows, S
// sequence.

/** The targets of a head: a label and a loss weight for each choice that the head makes. */
export interface TaskTargets {
  readonly labels: Int32Array;
  readonly weights: Float32Array;
}

/** A batch of a fine-tuning run on the device. */
export interface DeviceTaskBatch extends DeviceSequences {
  /** int32 [N] labels and float32 [N] loss factors, one for each choice of the head. */
  readonly labels: Variable;
  readonly weights: Variable;
  /**
   * [1, R]: the coordinates of the rows in which the head drops values, if it does; all are at position 0.
   */
  readonly headRows: RowCoordinates;
  readonly numRows: number;
  readonly sequenceLength: number;
  /** Tokens of each row before its padding, and the index of its first token. */
  readonly lengths: Int32Array;
  readonly starts: Int32Array;
}

/** Copies the part of a fine-tuning batch that a stage needs, and the labels of its head, to the device. */
export function taskBatchToDevice(
  batch: TaskTokenBatch,
  {
    targets,
    dropsInHead,
    ...sequences
  }: DeviceSequencesOptions & {
    readonly targets: TaskTargets;
    /** True if the head drops values. */
    readonly dropsInHead: boolean;
  },
): DeviceTaskBatch {
  const { batchSize, numChoices, sampleNumbers, sequenceLength, lengths } = batch;
  const numRows = batchSize * numChoices;
  const { device, packing, upload } = sequences;
  // every choice of a sample has separate dropout masks
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
