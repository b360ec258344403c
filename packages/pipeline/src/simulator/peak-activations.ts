import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';

/** A number for all chunks, or one for each, in the order of the model. */
export type PerChunk = number | readonly number[];

/**
 * The sizes of the tensors that one micro-batch keeps on one chunk, in any unit. From forward to the input
 * half of backward these are all tensors that backward needs; between input half and weight half only the
 * part that the weight half needs. Example: 32sbh out of sb(34h + 5as) bytes per layer (arXiv 2401.10241,
 * table 1).
 */
export interface ActivationSizes {
  /** M_B: the size from forward to the input half; default 1. */
  readonly untilInput?: PerChunk;
  /** M_W: the size from the input half to the weight half; default `untilInput`. */
  readonly untilWeight?: PerChunk;
}

/** The peaks of a rank's live activations. The four numbers may be reached at different times. */
export interface PeakActivations {
  /**
   * Peak number of activations (one micro-batch on one chunk) between forward and the end of their input
   * half.
   */
  readonly numUntilInput: number;
  /** Peak number of activations that still wait for their weight half; 0 if backward is not split. */
  readonly numUntilWeight: number;
  /** Peak number of both kinds together. */
  readonly numAlive: number;
  /** Peak size of both kinds together, in the unit of `ActivationSizes`. */
  readonly size: number;
}

/** Returns the value for a chunk. */
export function ofChunk(value: PerChunk, chunk: number): number {
  return typeof value === 'number' ? value : value[chunk]!;
}

/**
 * Returns the peak live activations of each rank. They depend only on the order of its actions, not on the
 * times, since a rank runs one action after the other. The tensors that a pass uses are alive until the pass
 * ends. Boundary tensors that have arrived early are not counted.
 */
export function peakActivations(
  { actions }: PipelineSchedule,
  sizes: ActivationSizes = {},
): readonly PeakActivations[] {
  const { untilInput = 1, untilWeight = untilInput } = sizes;
  return actions.map((order) => {
    let [numUntilInput, numUntilWeight, size] = [0, 0, 0];
    const peak = { numUntilInput: 0, numUntilWeight: 0, numAlive: 0, size: 0 };
    for (const { kind, chunk } of order) {
      const forInput = ofChunk(untilInput, chunk);
      const forWeight = ofChunk(untilWeight, chunk);
      if (kind === 'F') {
        numUntilInput++;
        size += forInput;
      } else if (kind === 'W') {
        numUntilWeight--;
        size -= forWeight;
      } else {
        numUntilInput--;
        size -= forInput;
        if (kind === 'I') {
          numUntilWeight++;
          size += forWeight;
        }
      }
      peak.numUntilInput = Math.max(peak.numUntilInput, numUntilInput);
      peak.numUntilWeight = Math.max(peak.numUntilWeight, numUntilWeight);
      peak.numAlive = Math.max(peak.numAlive, numUntilInput + numUntilWeight);
      peak.size = Math.max(peak.size, size);
    }
    return peak;
  });
}
