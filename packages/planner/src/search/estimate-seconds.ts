export interface EstimateSecondsOptions {
  /** Seconds of forward and backward of one micro-batch on each chunk, in the order of the model. */
  readonly chunks: readonly number[];
  readonly pipeline: number;
  readonly numMicroBatches: number;
  /** Part of a micro-batch that the bubble of the schedule counts: 1, or less with halves of backward. */
  readonly bubble: number;
  /** Of a message from one stage to the next. */
  readonly message: number;
  /** After the passes. */
  readonly end: number;
}

/**
 * Time of a step of 1F1B or the interleaved schedule, from its slowest rank: m micro-batches on it, and the
 * passes of all other ranks while the pipeline fills and empties (Narayanan et al. 2021, section 2.2).
 */
export function estimateSeconds(options: EstimateSecondsOptions): number {
  const { chunks, pipeline: p, numMicroBatches: m, bubble, message, end } = options;
  const perRank = Array.from({ length: p }, (_, rank) =>
    chunks.reduce((sum, seconds, chunk) => (chunk % p === rank ? sum + seconds : sum), 0),
  );
  const slowest = Math.max(...perRank);
  const v = chunks.length / p;
  const all = chunks.reduce((sum, seconds) => sum + seconds, 0);
  return m * slowest + (bubble * (all - slowest)) / v + 2 * (p - 1) * message + end;
}
