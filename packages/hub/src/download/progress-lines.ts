import { sizeText } from '../size-text.js';

/** The time between two progress lines: short enough to show progress, long enough not to fill a log. */
const intervalMs = 15_000;

/** Writes progress lines during a long download. */
export class ProgressLines {
  readonly #total: number;
  readonly #onMessage: (text: string) => void;
  readonly #startedMs = performance.now();
  #lastMs = this.#startedMs;
  #done = 0;

  /** `total`: the bytes of all files */
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
