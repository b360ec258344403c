import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';

/** One value for all chunks, or a list with one value for each chunk, in the order of the model. */
export type PerChunk = number | readonly number[];

/**
 * The sizes of the tensors that a micro-batch keeps on a chunk, in any unit. From the forward pass to the
 * input half of the backward pass, these are all tensors that the backward pass needs. Between the input half
 * and the weight half, only the tensors for the weight half remain: for example, `32 * s * b * h` of the `s *
 * b * (34 * h + 5 * a * s)` bytes per layer (arXiv 2401.10241, table 1).
 */
export interface ActivationSizes {
  /** M_B: the size from the forward pass to the input half; default 1. */
  readonly untilInput?: PerChunk;
  /** M_W: the size from the input half to the weight half; default `untilInput`. */
  readonly untilWeight?: PerChunk;
}

/** The peaks of a rank's live activations. The individual peaks may be reached at different times. */
export interface PeakActivations {
  /**
   * The peak number of activations between the forward pass and the end of the backward pass's input half.
   * Each micro-batch on a chunk counts as one activation.
   */
  readonly numUntilInput: number;
  /** The peak number of activations that wait for their weight half; 0 if the backward pass is not split. */
  readonly numUntilWeight: number;
  /** Peak number of both kinds together. */
  readonly numAlive: number;
  /**
   * The peak size of all live activations together, before and after their input half, in the unit of
   * `ActivationSizes`.
   */
  readonly size: number;
}

/** Returns the value for a chunk. */
export function ofChunk(value: PerChunk, chunk: number): number {
  return typeof value === 'number' ? value : value[chunk]!;
}

/**
 * Returns the peak live activations of each rank. They depend only on the order of the rank's actions, not on
 * times, because a rank runs one action after the other. The tensors that a pass uses are alive until the
 * pass ends. Boundary tensors that have arrived early do not count.
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
