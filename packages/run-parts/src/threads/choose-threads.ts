/**
 * Model FLOPs of a micro-batch that one thread needs for another to pay
 * (docs/decisions/2026-11-22-threads.md).
 */
export const flopsPerThread = 5e9;

export interface ChooseThreadsOptions {
  /** --threads. */
  readonly given: number | undefined;
  /** What the checkpoint that training resumes from was trained with. */
  readonly recorded: number | undefined;
  /** Model FLOPs of a micro-batch on this rank, forward and backward (`modelFlops`). */
  readonly flopsPerMicroBatch: number;
  /** Cores that this process may use: its share of the host's. */
  readonly cores: number;
  /**
   * How many of them other processes leave free, measured only where it matters; undefined where it cannot be
   * measured.
   */
  readonly measureFreeCores: () => Promise<number | undefined>;
}

/** How many threads the kernels of a process get, and why. */
export interface ThreadChoice {
  readonly count: number;
  /** Completes the sentence `threads 1: ...`. */
  readonly reason: string;
}

/**
 * Chooses the threads of a training run before its first step; they stay the same to its end, since results
 * are repeatable at one number of threads. In order: what the flag names, what the checkpoint was trained
 * with, and then as many as have `flopsPerThread` of a micro-batch each, on cores that are free.
 */
export async function chooseThreads(options: ChooseThreadsOptions): Promise<ThreadChoice> {
  const { given, recorded, flopsPerMicroBatch, cores, measureFreeCores } = options;
  if (given !== undefined) return { count: given, reason: 'as --threads says' };
  if (recorded !== undefined && recorded <= cores) {
    return { count: recorded, reason: 'as the checkpoint was trained with, so that results repeat' };
  }
  const fewer =
    recorded === undefined ? '' : `; the checkpoint was trained with ${recorded}, results differ by rounding`;
  const worthwhile = Math.max(1, Math.floor(flopsPerMicroBatch / flopsPerThread));
  if (cores === 1) return { count: 1, reason: `one core for this process${fewer}` };
  if (worthwhile === 1) {
    const size = `${flopsPerMicroBatch.toExponential(1)} FLOPs a micro-batch`;
    return { count: 1, reason: `more would slow down a model of ${size}${fewer}` };
  }
  const free = await measureFreeCores();
  if (free !== undefined && free < cores - toleratedLoad) {
    // of a core that others use a fifth of, a thread has enough
    const usable = Math.max(1, Math.floor(free + toleratedLoad));
    const count = Math.min(worthwhile, usable);
    return { count, reason: `${free.toFixed(1)} of ${cores} cores are free${fewer}` };
  }
  if (worthwhile < cores) {
    return {
      count: worthwhile,
      reason: `more than ${worthwhile} would slow down a model of this size${fewer}`,
    };
  }
  return { count: cores, reason: `one for each core of this process${fewer}` };
}

/** The part of a core that others may use while it counts as free. */
const toleratedLoad = 0.2;
