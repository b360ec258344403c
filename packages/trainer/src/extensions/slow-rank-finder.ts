import type { TrainingEvent } from '../metrics/training-reports.js';

/** A rank is slow if its time is at least this factor times its expected time. */
const slowFactor = 1.1;
/**
 * The minimum duration of an interval, in milliseconds. Shorter intervals are joined, so that a rank does not
 * seem slow because of a short disturbance by other programs on its host.
 */
const leastIntervalMs = 10_000;
/**
 * The number of consecutive slow intervals after which a rank is reported as slow. A single slow interval may
 * be caused by other programs on the host.
 */
const numIntervals = 3;
/** The number of intervals at the start whose median is the reference time of a rank without peers. */
const numFirst = 3;

export interface SlowRankFinderOptions {
  /**
   * Groups of ranks that do the same computation, such as the ranks of one pipeline stage. A rank without
   * peers is compared with its own first intervals, scaled by how much the times of all ranks have changed
   * since.
   */
  readonly peers: ReadonlyArray<readonly number[]>;
  /** Names of the hosts by rank. */
  readonly hosts: readonly string[];
  /**
   * The minimum computation time for a comparison, in milliseconds. Shorter intervals are joined. Default: 10
   * s.
   */
  readonly leastIntervalMs?: number | undefined;
}

/** The computation times of all ranks in an interval of steps. */
interface RankInterval {
  /** The last step of the interval. */
  readonly iteration: number;
  readonly numSteps: number;
  /** Milliseconds per step without communication, by rank. */
  readonly computeMs: readonly number[];
}

/** The measured and the expected time of a rank, in milliseconds per step. */
interface ComparedRank {
  readonly rank: number;
  readonly computeMs: number;
  readonly expectedMs: number;
  readonly isAlone: boolean;
}

/**
 * Finds ranks that compute longer than expected for several intervals. The expected time of a rank is the
 * median time of its peers. Ranks have no peers if every rank is a separate pipeline stage. In this case, the
 * expected time is the time of the rank's first intervals, multiplied by the median change of all ranks since
 * then. A cause that slows all ranks equally, such as larger batches, makes no rank slow. If a rank without
 * peers is slow from the start, it is not found.
 */
export class SlowRankFinder {
  readonly #options: SlowRankFinderOptions;
  /** Ranks without peers. */
  readonly #alone: readonly number[];
  /** The number of slow intervals in a row, by rank. */
  readonly #numSlow = new Map<number, number>();
  /** The times of the first intervals, by rank; empty if all ranks have peers. */
  readonly #first: (readonly number[])[] = [];
  /** The total milliseconds of the intervals that have been joined so far, by rank. */
  #joinedMs: readonly number[] = [];
  #joinedSteps = 0;

  constructor(options: SlowRankFinderOptions) {
    this.#options = options;
    this.#alone = options.peers.filter(({ length }) => length === 1).flat();
  }

  /** Adds an interval. Returns an event for each rank that has become slow, or is no longer slow. */
  add({ iteration, numSteps, computeMs: ofStep }: RankInterval): readonly TrainingEvent[] {
    this.#joinedMs = ofStep.map((ms, rank) => (this.#joinedMs[rank] ?? 0) + ms * numSteps);
    this.#joinedSteps += numSteps;
    if (Math.max(...this.#joinedMs) < (this.#options.leastIntervalMs ?? leastIntervalMs)) return [];
    const computeMs = this.#joinedMs.map((ms) => ms / this.#joinedSteps);
    this.#joinedMs = [];
    this.#joinedSteps = 0;
    const compared = [...this.#withPeers(computeMs), ...this.#withoutPeers(computeMs)];
    return compared.flatMap((rank) => this.#judge(iteration, rank));
  }

  #withPeers(computeMs: readonly number[]): readonly ComparedRank[] {
    return this.#options.peers.flatMap((peers) => {
      if (peers.length < 2) return [];
      const expectedMs = lowerMedian(peers.map((rank) => computeMs[rank]!));
      return peers.map((rank) => ({ rank, computeMs: computeMs[rank]!, expectedMs, isAlone: false }));
    });
  }

  /**
   * Compares ranks without peers with their own first intervals. Returns an empty list during the first
   * intervals. Also returns an empty list if there is only one such rank, because its own slowdown cannot be
   * distinguished from a change that affects all ranks.
   */
  #withoutPeers(computeMs: readonly number[]): readonly ComparedRank[] {
    if (this.#alone.length < 2) return [];
    if (this.#first.length < numFirst) {
      this.#first.push(computeMs);
      return [];
    }
    const before = computeMs.map((_, rank) => lowerMedian(this.#first.map((interval) => interval[rank]!)));
    const change = lowerMedian(this.#alone.map((rank) => computeMs[rank]! / before[rank]!));
    return this.#alone.map((rank) => ({
      rank,
      computeMs: computeMs[rank]!,
      expectedMs: before[rank]! * change,
      isAlone: true,
    }));
  }

  #judge(iteration: number, compared: ComparedRank): readonly TrainingEvent[] {
    const { rank, computeMs, expectedMs } = compared;
    const before = this.#numSlow.get(rank) ?? 0;
    const now = computeMs > slowFactor * expectedMs ? before + 1 : 0;
    this.#numSlow.set(rank, now);
    if (now === numIntervals) return [this.#event(iteration, compared, { isSlow: true })];
    const isOver = now === 0 && before >= numIntervals;
    return isOver ? [this.#event(iteration, compared, { isSlow: false })] : [];
  }

  #event(
    iteration: number,
    { rank, computeMs, expectedMs, isAlone }: ComparedRank,
    { isSlow }: { readonly isSlow: boolean },
  ): TrainingEvent {
    const host = this.#options.hosts[rank] ?? 'unknown';
    const percent = Math.round(100 * (computeMs / expectedMs - 1));
    const expected = isAlone ? 'by its first intervals and the other ranks' : 'median of its pipeline stage';
    const times = `${computeMs.toFixed(1)} ms of computation a step, ${expected} ${expectedMs.toFixed(1)} ms`;
    const slower = `${percent} % slower than ${isAlone ? 'before' : 'others'} for ${numIntervals} intervals`;
    const text = isSlow
      ? `rank ${rank} (host ${host}) is ${slower}: ${times}`
      : `rank ${rank} (host ${host}) is no longer slow: ${times}`;
    const key = isAlone ? 'expected_compute_ms' : 'median_compute_ms';
    return {
      type: 'slow_rank',
      iteration,
      text,
      fields: { rank, host, is_slow: isSlow, compute_ms: computeMs, [key]: expectedMs },
    };
  }
}

/**
 * Returns the median. For an even number of values, returns the smaller middle value, because slow ranks are
 * the exception.
 */
function lowerMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!;
}
