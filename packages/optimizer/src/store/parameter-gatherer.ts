import type { Work } from '@mtl/comm';
import type { Bucket } from './flat-layout.js';

/**
 * The gathers of parameters that are under way. A parameter waits for its bucket when it is next read, so
 * that gathers overlap with the forward pass unless `finish` is called.
 */
export class ParameterGatherer {
  #works: Work[] = [];

  /** Takes the gather that fills a bucket's values. */
  add(work: Work, { ranges }: Bucket): void {
    this.#works.push(work);
    for (const { parameter } of ranges) parameter.deferData(() => work.wait());
  }

  /** Waits for all gathers that were started. */
  finish(): void {
    for (const work of this.#works) work.wait();
    this.#works = [];
  }

  /**
   * Waits until nothing writes into the buffers any more, so that they can be freed. What has failed has
   * ended too; who needs its result hears of it.
   */
  abandon(): void {
    for (const work of this.#works) {
      try {
        work.wait();
      } catch {
        // an error here would hide the one for which the run ends
      }
    }
    this.#works = [];
  }
}
