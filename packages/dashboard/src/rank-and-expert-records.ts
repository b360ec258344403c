import type { ExpertsAnswer, ExpertsOfRun, RanksOfRun } from './api-types.js';

type Fields = Readonly<Record<string, unknown>>;
type Numbers = readonly (number | null)[];

/** Collects the records of types `ranks` and `slow_rank`, which have metrics of a run's ranks. */
export class RankRecords {
  #last: Omit<RanksOfRun, 'hosts' | 'slow'> | undefined;
  /** The host names, which only the first record of each start has. */
  #hosts: readonly (string | null)[] = [];
  readonly #slow = new Set<number>();

  /** The metrics of the last record; null if there is none. */
  get current(): RanksOfRun | null {
    if (this.#last === undefined) return null;
    return { ...this.#last, hosts: this.#hosts, slow: [...this.#slow].sort((a, b) => a - b) };
  }

  addFigures(record: Fields): void {
    const { iteration, hosts } = record;
    const computeMs = numbersIn(record.compute_ms);
    if (typeof iteration !== 'number' || computeMs.length === 0) return;
    if (Array.isArray(hosts)) {
      this.#hosts = hosts.map((host) => (typeof host === 'string' ? host : null));
      // cleared, because a new start may have different ranks
      this.#slow.clear();
    }
    const [waitedMs, peakBytes] = [numbersIn(record.waited_ms), numbersIn(record.peak_bytes)];
    this.#last = { iteration, computeMs, waitedMs, peakBytes };
  }

  addSlowRank({ rank, is_slow: isSlow }: Fields): void {
    if (typeof rank !== 'number') return;
    if (isSlow === false) this.#slow.delete(rank);
    else this.#slow.add(rank);
  }

  clear(): void {
    this.#last = undefined;
    this.#hosts = [];
    this.#slow.clear();
  }
}

/**
 * The maximum number of intervals to keep. If there are more, they are merged in pairs, so that a long run
 * takes no more memory than a short run.
 */
const mostIntervals = 240;
/**
 * The maximum number of layers times experts. A record with more is ignored, so that a damaged file cannot
 * exhaust memory.
 */
const mostCells = 1 << 16;

/** The loads of experts in the steps from `first` to `last`. */
interface Interval {
  readonly first: number;
  readonly last: number;
  /** How many rows each expert got, by layer and then by expert. */
  readonly counts: Float32Array;
  /** The fraction of expert assignments that were dropped, by layer. */
  readonly dropped: Numbers;
  readonly entropy: Numbers;
}

/** Collects the records of type `experts`: loads of experts over the whole run, and the newest record. */
export class ExpertRecords {
  #layers: readonly number[] = [];
  #numExperts = 0;
  #intervals: Interval[] = [];
  /** The newest record, not merged with others. */
  #newest: Interval | undefined;
  #idle = '';

  /** Facts about the recorded loads; null if there are none. */
  get current(): ExpertsOfRun | null {
    if (this.#newest === undefined) return null;
    return { iteration: this.#newest.last, numLayers: this.#layers.length, numExperts: this.#numExperts };
  }

  /**
   * Adds a record. Returns a message about the experts that got no tokens, if they are not the same experts
   * as before.
   */
  add(record: Fields & { readonly iteration: number }): string | undefined {
    const { iteration } = record;
    const layers = Array.isArray(record.layers) ? record.layers.map(numberOfLayer) : [];
    const counts = countsIn(record.loads, layers.length);
    if (counts === undefined) return undefined;
    const numExperts = counts.length / layers.length;
    if (layers.join() !== this.#layers.join() || numExperts !== this.#numExperts) this.clear();
    [this.#layers, this.#numExperts] = [layers, numExperts];
    // removes the intervals of steps that a resumed run computes again
    this.#intervals = this.#intervals.filter(({ last }) => last < iteration);
    const steps = typeof record.steps === 'number' ? record.steps : 1;
    const [dropped, entropy] = [numbersIn(record.dropped), numbersIn(record.entropy)];
    this.#newest = { first: Math.max(1, iteration - steps + 1), last: iteration, counts, dropped, entropy };
    this.#intervals.push(this.#newest);
    if (this.#intervals.length > mostIntervals) this.#intervals = inPairs(this.#intervals);
    const idle = this.#idleExperts().join('; ');
    const isNews = idle !== this.#idle && idle !== '';
    this.#idle = idle;
    return isNews ? `experts that got no tokens: ${idle}` : undefined;
  }

  /**
   * Returns the newest loads of all layers, and the loads of `layer` over time. If no layer has this index,
   * returns the loads of the first layer instead.
   */
  answer(layer: number | undefined): ExpertsAnswer | undefined {
    const newest = this.#newest;
    if (newest === undefined) return undefined;
    const [layers, size] = [this.#layers, this.#numExperts];
    const shown = Math.max(0, layers.indexOf(layer ?? -1));
    const computeLoads = ({ counts }: Interval, at: number) =>
      relative(counts.subarray(at * size, (at + 1) * size));
    return {
      layers,
      numExperts: size,
      newest: {
        first: newest.first,
        last: newest.last,
        loads: layers.map((_, at) => computeLoads(newest, at)),
        dropped: layers.map((_, at) => newest.dropped[at] ?? null),
        entropy: layers.map((_, at) => newest.entropy[at] ?? null),
      },
      layer: layers[shown]!,
      first: this.#intervals.map(({ first }) => first),
      last: this.#intervals.map(({ last }) => last),
      loads: this.#intervals.map((interval) => computeLoads(interval, shown)),
      dropped: this.#intervals.map(({ dropped }) => dropped[shown] ?? null),
      entropy: this.#intervals.map(({ entropy }) => entropy[shown] ?? null),
    };
  }

  clear(): void {
    [this.#layers, this.#numExperts] = [[], 0];
    this.#intervals = [];
    this.#newest = undefined;
    this.#idle = '';
  }

  #idleExperts(): readonly string[] {
    const { counts } = this.#newest!;
    return this.#layers.flatMap((layer, at) => {
      const ofLayer = counts.subarray(at * this.#numExperts, (at + 1) * this.#numExperts);
      const idle = [...ofLayer].flatMap((count, expert) => (count === 0 ? [expert] : []));
      return idle.length === 0 ? [] : [`layer ${layer}: ${idle.join(', ')}`];
    });
  }
}

/** Returns the number in a layer's name, such as `decoder.layers.3.mlp`. */
function numberOfLayer(name: unknown, index: number): number {
  return Number(/\d+/.exec(String(name))?.[0] ?? index);
}

/** Returns the loads of all layers, each with the same number of experts; undefined for invalid data. */
function countsIn(loads: unknown, numLayers: number): Float32Array | undefined {
  if (!Array.isArray(loads) || numLayers === 0 || loads.length !== numLayers) return undefined;
  const lists = loads as readonly unknown[];
  const [first] = lists;
  if (!Array.isArray(first) || first.length === 0 || first.length * numLayers > mostCells) return undefined;
  const isEven = lists.every((list) => Array.isArray(list) && list.length === first.length);
  return isEven ? Float32Array.from(lists.flat(), (count) => Math.max(0, Number(count) || 0)) : undefined;
}

function numbersIn(value: unknown): Numbers {
  return Array.isArray(value) ? value.map((item) => (typeof item === 'number' ? item : null)) : [];
}

/**
 * Returns counts relative to an even load, with three significant digits. If all counts are 0, all results
 * are 0.
 */
function relative(counts: Float32Array): readonly number[] {
  const even = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return Array.from(counts, (count) => (even === 0 ? 0 : Number((count / even).toPrecision(3))));
}

/** Merges intervals in pairs; if the number of intervals is odd, the last interval is unchanged. */
function inPairs(intervals: readonly Interval[]): Interval[] {
  return intervals.flatMap((one, index) => {
    if (index % 2 === 1) return [];
    const other = intervals[index + 1];
    return [other === undefined ? one : merged(one, other)];
  });
}

function merged(one: Interval, other: Interval): Interval {
  const weights = [one, other].map(({ first, last }) => last - first + 1) as [number, number];
  return {
    first: one.first,
    last: other.last,
    counts: one.counts.map((count, at) => count + other.counts[at]!),
    dropped: means(one.dropped, other.dropped, weights),
    entropy: means(one.entropy, other.entropy, weights),
  };
}

function means(one: Numbers, other: Numbers, [a, b]: readonly [number, number]): Numbers {
  return one.map((value, at) => {
    const next = other[at] ?? null;
    if (value === null || next === null) return value ?? next;
    return (a * value + b * next) / (a + b);
  });
}
