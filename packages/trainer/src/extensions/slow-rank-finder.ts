import type { TrainingEvent } from '../metrics/training-reports.js';

/** A rank that takes so many times what is expected of it is slow. */
const slowFactor = 1.1;
/** Shorter intervals are joined: what else a host does for a moment must not count. */
const leastIntervalMs = 10_000;
/** Intervals in a row for which a rank must be slow: one alone may be what else the host did. */
const numIntervals = 3;
/** First intervals of a start, whose median is what a rank without peers took before. */
const numFirst = 3;

export interface SlowRankFinderOptions {
  /**
   * Ranks that compute the same: those of one pipeline stage. Ranks without peers are compared with what they
   * took in the first intervals, and by how much the others have changed since.
   */
  readonly peers: ReadonlyArray<readonly number[]>;
  /** Names of the hosts by rank. */
  readonly hosts: readonly string[];
  /** Milliseconds of computation that ranks are compared by; shorter intervals are joined. Default: 10 s. */
  readonly leastIntervalMs?: number | undefined;
}

/** Times that the ranks report of some steps. */
interface RankInterval {
  /** The last of its steps. */
  readonly iteration: number;
  readonly numSteps: number;
  /** Milliseconds of a step without communication, by rank. */
  readonly computeMs: readonly number[];
}

/** The time that a rank took, and the time that was expected of it, in milliseconds of a step. */
interface ComparedRank {
  readonly rank: number;
  readonly computeMs: number;
  readonly expectedMs: number;
  readonly isAlone: boolean;
}

/**
 * Finds ranks that compute longer than expected for several intervals: than the median of their peers. Where
 * every rank is a pipeline stage of its own, no other computes the same. Such a rank is expected to take what
 * it took in the first intervals, times the median change of all ranks since then: what slows all of them
 * alike, such as larger batches, makes none of them slow. One that is slow from the start is not found there.
 */
export class SlowRankFinder {
  readonly #options: SlowRankFinderOptions;
  /** Ranks without peers. */
  readonly #alone: readonly number[];
  /** The number of intervals in a row for which a rank was slow, by rank. */
  readonly #numSlow = new Map<number, number>();
  /** The first intervals, by rank; empty where all ranks have peers. */
  readonly #first: (readonly number[])[] = [];
  /** Milliseconds of the intervals that are joined, by rank. */
  #joinedMs: readonly number[] = [];
  #joinedSteps = 0;

  constructor(options: SlowRankFinderOptions) {
    this.#options = options;
    this.#alone = options.peers.filter(({ length }) => length === 1).flat();
  }

  /** Takes note of an interval. Returns the ranks that have become slow, and those that are so no more. */
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

  /** Nothing in the first intervals, nor for one rank, which cannot be told from a change of all. */
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

/** Returns the median, and of two values in the middle the smaller one: a slow rank is not the usual case. */
function lowerMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!;
}
