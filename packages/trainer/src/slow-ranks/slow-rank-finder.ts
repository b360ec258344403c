import type { TrainingEvent } from '../training-event.js';

/** A rank that takes so many times the median of its peers is slow. */
const slowFactor = 1.1;
/** Shorter intervals are joined: what else a host does for a moment must not count. */
const leastIntervalMs = 10_000;
/** Intervals in a row for which a rank must be slow: one alone may be what else the host did. */
const numIntervals = 3;

export interface SlowRankFinderOptions {
  /** Ranks that compute the same: those of one pipeline stage. A rank without peers is not compared. */
  readonly peers: ReadonlyArray<readonly number[]>;
  /** Names of the hosts by rank. */
  readonly hosts: readonly string[];
  /** Milliseconds of computation that ranks are compared by; shorter intervals are joined. Default: 10 s. */
  readonly leastIntervalMs?: number | undefined;
}

/** What the ranks told of some steps. */
export interface RankInterval {
  /** The last of its steps. */
  readonly iteration: number;
  readonly numSteps: number;
  /** By rank, milliseconds of a step without communication. */
  readonly computeMs: readonly number[];
}

/** Finds ranks that compute longer than their peers for several intervals. */
export class SlowRankFinder {
  readonly #options: SlowRankFinderOptions;
  /** By rank, the intervals in a row for which it was slow. */
  readonly #numSlow = new Map<number, number>();
  /** Of the intervals that are joined, by rank. */
  #joinedMs: readonly number[] = [];
  #joinedSteps = 0;

  constructor(options: SlowRankFinderOptions) {
    this.#options = options;
  }

  /** Takes note of an interval. Returns the ranks that have become slow, and those that are so no more. */
  add({ iteration, numSteps, computeMs: ofStep }: RankInterval): readonly TrainingEvent[] {
    this.#joinedMs = ofStep.map((ms, rank) => (this.#joinedMs[rank] ?? 0) + ms * numSteps);
    this.#joinedSteps += numSteps;
    if (Math.max(...this.#joinedMs) < (this.#options.leastIntervalMs ?? leastIntervalMs)) return [];
    const computeMs = this.#joinedMs.map((ms) => ms / this.#joinedSteps);
    this.#joinedMs = [];
    this.#joinedSteps = 0;
    return this.#compare(iteration, computeMs);
  }

  #compare(iteration: number, computeMs: readonly number[]): readonly TrainingEvent[] {
    const events: TrainingEvent[] = [];
    for (const peers of this.#options.peers) {
      if (peers.length < 2) continue;
      const median = lowerMedian(peers.map((rank) => computeMs[rank]!));
      for (const rank of peers) {
        const before = this.#numSlow.get(rank) ?? 0;
        const now = computeMs[rank]! > slowFactor * median ? before + 1 : 0;
        this.#numSlow.set(rank, now);
        const isNew = now === numIntervals;
        const isOver = now === 0 && before >= numIntervals;
        if (isNew || isOver)
          events.push(this.#event({ iteration, rank, median, computeMs: computeMs[rank]! }, isNew));
      }
    }
    return events;
  }

  #event(
    found: {
      readonly iteration: number;
      readonly rank: number;
      readonly median: number;
      readonly computeMs: number;
    },
    isSlow: boolean,
  ): TrainingEvent {
    const { iteration, rank, median, computeMs } = found;
    const host = this.#options.hosts[rank] ?? 'unknown';
    const percent = Math.round(100 * (computeMs / median - 1));
    const times = `${computeMs.toFixed(1)} ms of computation a step, median of its pipeline stage ${median.toFixed(1)} ms`;
    const text = isSlow
      ? `rank ${rank} (host ${host}) is ${percent} % slower than others for ${numIntervals} intervals: ${times}`
      : `rank ${rank} (host ${host}) is no longer slow: ${times}`;
    return {
      type: 'slow_rank',
      iteration,
      text,
      fields: { rank, host, is_slow: isSlow, compute_ms: computeMs, median_compute_ms: median },
    };
  }
}

/** Of two the smaller one: what is slow is not what is usual. */
function lowerMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)]!;
}
