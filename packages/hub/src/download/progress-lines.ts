import { sizeText } from '../size-text.js';

/** Time between two lines: a download of minutes shows that it goes on, and fills no log. */
const intervalMs = 15_000;

/** Writes lines of progress during a download that takes long. */
export class ProgressLines {
  readonly #total: number;
  readonly #onMessage: (text: string) => void;
  readonly #startedMs = performance.now();
  #lastMs = this.#startedMs;
  #done = 0;

  /** `total`: bytes of all files */
  constructor({ total, onMessage }: { readonly total: number; readonly onMessage: (text: string) => void }) {
    this.#total = total;
    this.#onMessage = onMessage;
  }

  add(bytes: number): void {
    this.#done += bytes;
    const now = performance.now();
    if (now - this.#lastMs < intervalMs) return;
    this.#lastMs = now;
    const perSecond = (this.#done / (now - this.#startedMs)) * 1000;
    this.#onMessage(
      `  ${sizeText(this.#done)} of ${sizeText(this.#total)}, ${sizeText(Math.max(0, perSecond))} a second`,
    );
  }
}
