import type { RankProcess } from './rank-process.js';

/**
 * How long ranks have to find out about a failure themselves, which is a second at most on one host, and to
 * say so.
 */
const ownWordsMs = 1_000;

/** The end of the ranks of this host after a failure: by themselves, by SIGTERM, by SIGKILL. */
export class RankShutdown {
  readonly #ranks: () => readonly RankProcess[];
  readonly #gracePeriodMs: number;
  #timer: NodeJS.Timeout | undefined;
  #hasBegun = false;

  constructor(ranks: () => readonly RankProcess[], gracePeriodMs: number) {
    this.#ranks = ranks;
    this.#gracePeriodMs = gracePeriodMs;
  }

  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** A second call does nothing. */
  begin(): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    this.#timer = setTimeout(() => this.#terminate(), ownWordsMs);
  }

  /** All have ended. */
  isOver(): void {
    this.#hasBegun = true;
    clearTimeout(this.#timer);
  }

  #terminate(): void {
    for (const rank of this.#ranks()) {
      // SIGTERM would wait in a stopped process, whatever time it has
      if (rank.isStopped()) rank.kill();
      else rank.signal('SIGTERM');
    }
    this.#timer = setTimeout(() => {
      for (const rank of this.#ranks()) rank.kill();
    }, this.#gracePeriodMs);
  }
}
