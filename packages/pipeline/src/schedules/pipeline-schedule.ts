/**
 * The letters in the comments of this folder are from Narayanan et al. 2021 (arXiv 2104.04473): p is the
 * number of ranks (stages), m the number of micro-batches, v the number of chunks per rank, r the index of a
 * rank, and N the micro-batch group size.
 */

/**
 * The kind of a micro-batch's pass on a chunk: `F` forward, `B` the complete backward, `I` only the input
 * half of backward, `W` only the weight half. (The zero-bubble papers call the input half B. This code uses
 * the letters of PyTorch's schedule files, which have a separate letter for each kind.)
 */
export type PassKind = 'F' | 'B' | 'I' | 'W';

/** An action of a rank. */
export interface ScheduleAction {
  readonly kind: PassKind;
  /**
   * The model chunk. Chunk 0 holds the first layers, and chunk `placement.length - 1` holds the head and the
   * loss.
   */
  readonly chunk: number;
  readonly microBatch: number;
}

/**
 * A pipeline schedule as data: the rank of each model chunk, and the order of forward and backward passes on
 * each rank. Sends and receives are not actions. When an F ends, its output is sent to the next chunk, if
 * there is one. When a B or I ends, its gradient is sent to the previous chunk, if there is one.
 */
export interface PipelineSchedule {
  /** The name in pictures and errors. */
  readonly name: string;
  readonly numMicroBatches: number;
  /** The rank of each chunk, in the order of the model. */
  readonly placement: readonly number[];
  /** The actions of each rank, in order. */
  readonly actions: ReadonlyArray<readonly ScheduleAction[]>;
}

/** The size for which a schedule is made. */
export interface ScheduleSize {
  /** p: ranks of the pipeline, 2 or more. */
  readonly numStages: number;
  /** m: the number of micro-batches that one pipeline runs in a step. */
  readonly numMicroBatches: number;
  /**
   * v: the number of chunks of the model on each rank (virtual stages). Default: the smallest number that the
   * schedule allows.
   */
  readonly numChunks?: number | undefined;
  /**
   * N: the number of micro-batches that the interleaved schedule sends through a chunk before it continues
   * with the next chunk. Default: p.
   */
  readonly microBatchGroupSize?: number | undefined;
}

/**
 * A function that builds a schedule of any size. If the schedule does not support a size, it throws a
 * ConfigurationError with the nearest valid values.
 */
export type ScheduleFunction = (size: ScheduleSize) => PipelineSchedule;

/**
 * Formats an action as in schedule files and messages: chunk, kind, micro-batch. For example, `3F0` is the
 * forward pass of micro-batch 0 on chunk 3.
 */
export function formatAction({ chunk, kind, microBatch }: ScheduleAction): string {
  return `${chunk}${kind}${microBatch}`;
}

/** Returns each chunk's index among its rank's chunks: 0 for the rank's first chunk in the model. */
export function chunkRounds({ placement }: Pick<PipelineSchedule, 'placement'>): readonly number[] {
  const numSeen = new Map<number, number>();
  return placement.map((rank) => {
    const round = numSeen.get(rank) ?? 0;
    numSeen.set(rank, round + 1);
    return round;
  });
}
