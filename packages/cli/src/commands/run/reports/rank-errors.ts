import type { RankExit } from '../launcher/rank-process.js';
import { blamesAnotherRank, type Verdict, wrongInputStatus } from './judge-attempt.js';
import { LinePrefixer } from './rank-output.js';

/**
 * Prints the errors of the ranks in an attempt. Equal errors are printed only once. Two types of errors are
 * held back until it is decided whether the job restarts: errors about wrong input, which all ranks may
 * report, and errors that the failure of another rank caused.
 */
export class RankErrors {
  readonly #show: (lines: Buffer) => void;
  readonly #shown = new Map<string, { readonly first: number; readonly others: number[] }>();
  readonly #waiting: RankExit[] = [];

  constructor(show: (lines: Buffer) => void) {
    this.#show = show;
  }

  push(end: RankExit): void {
    if (end.error === '') return;
    if (end.status === wrongInputStatus || blamesAnotherRank(end)) this.#waiting.push(end);
    else this.#showOnce(end);
  }

  /**
   * Prints the errors that were held back, except errors that the launcher itself prints at the end of the
   * job.
   */
  settle({ input }: Pick<Verdict, 'input'>): void {
    for (const end of this.#waiting) {
      const isSaid = input !== undefined && (end.error === input.error || blamesAnotherRank(end));
      if (!isSaid) this.#showOnce(end);
    }
    for (const { first, others } of this.#shown.values()) {
      if (others.length === 0) continue;
      const names = others.map((rank) => `[${rank}]`).join(' ');
      this.#show(Buffer.from(`${names} the same error as rank ${first}\n`));
    }
  }

  #showOnce({ rank, error }: RankExit): void {
    const shown = this.#shown.get(error);
    if (shown !== undefined) {
      shown.others.push(rank);
      return;
    }
    this.#shown.set(error, { first: rank, others: [] });
    this.#show(new LinePrefixer(`[${rank}] `).push(Buffer.from(`${error}\n`)));
  }
}
