import type { SearchProgress } from '@mtl/planning';
import { ProgressBar, type ProgressStream } from '../../terminal/progress-bar.js';

/** Seconds between two lines where no bar is drawn. */
const secondsPerLine = 10;

/**
 * Shows how far a search is: as a bar on a terminal, elsewhere as a line every ten seconds, so that the log
 * of a long search shows that it goes on.
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
    // each part is half of the bar
    this.#bar.update((numEstimated / numCandidates + numFound / numWanted) / 2, text);
    if (this.#stream.isTTY === true || this.#bar.seconds < this.#lineAt) return;
    this.#lineAt = this.#bar.seconds + secondsPerLine;
    this.#stream.write(`${text}\n`);
  }

  close(): void {
    this.#bar.close();
  }
}
