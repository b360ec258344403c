import type { DataError } from '@mtl/errors';
import type { OnBadLine } from './corpus-error.js';

/** Counts the lines and rows that are left out of a corpus because they hold no usable text. */
export class BadLines {
  /** What `readDocuments` is given; undefined where none is left out. */
  readonly onBadLine: OnBadLine | undefined;
  #count = 0;
  #first: DataError | undefined;

  constructor({ skip }: { readonly skip: boolean }) {
    if (!skip) return;
    this.onBadLine = (error) => {
      this.#count++;
      this.#first ??= error;
    };
  }

  get count(): number {
    return this.#count;
  }

  /** What is wrong with the first one. */
  get first(): DataError | undefined {
    return this.#first;
  }

  /** @throws DataError the first one's, if no document is left: the key is wrong, and not a few lines */
  checkSomeUsable(numDocuments: number): void {
    if (numDocuments === 0 && this.#first !== undefined) throw this.#first;
  }
}
