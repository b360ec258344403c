import type { SearchProgress } from '@mtl/planning';
import { ProgressBar, type ProgressStream } from '../../terminal/progress-bar.js';

/** Seconds between two lines of progress if the output is not a terminal. */
const secondsPerLine = 10;

/**
 * Shows the progress of a search: a bar on a terminal, or else a line every ten seconds, so that logs show
 * that a long search is still running.
 */
export class SearchReport {
  readonly #stream: ProgressStream;
  readonly #bar: ProgressBar;
  #lineAt = secondsPerLine;

  constructor(stream: ProgressStream = process.stderr, now?: () => number) {
    this.#stream = stream;
    this.#bar = new ProgressBar(stream, now);
  }

  update({ numEstimated, numCandidates, numPlanned, numFound, numWanted }: SearchProgress): void {
    const text =
      numEstimated < numCandidates
        ? `estimating layouts: ${numEstimated} of ${numCandidates}`
        : `planning whole: ${numPlanned} layouts, ${numFound} of ${numWanted} wanted fit`;
    // estimating candidates fills one half of the bar, and finding layouts the other half
    this.#bar.update((numEstimated / numCandidates + numFound / numWanted) / 2, text);
    if (this.#stream.isTTY === true || this.#bar.seconds < this.#lineAt) return;
    this.#lineAt = this.#bar.seconds + secondsPerLine;
    this.#stream.write(`${text}\n`);
  }

  close(): void {
    this.#bar.close();
  }
}
