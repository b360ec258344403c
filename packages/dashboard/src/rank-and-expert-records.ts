import type { RanksOfRun } from './api-types.js';

type Fields = Readonly<Record<string, unknown>>;
type Numbers = readonly (number | null)[];

/** Collects records of types `ranks` and `slow_rank`: figures of the ranks of a run. */
export class RankRecords {
  #last: Omit<RanksOfRun, 'hosts' | 'slow'> | undefined;
  /** Named by the first record of each start only. */
  #hosts: readonly (string | null)[] = [];
  readonly #slow = new Set<number>();

  /** The last figures; null for a run without any. */
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
      // another start may have other ranks
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

function numbersIn(value: unknown): Numbers {
  if (!Array.isArray(value)) return [];
  return value.map((item) => (typeof item === 'number' ? item : null));
}
