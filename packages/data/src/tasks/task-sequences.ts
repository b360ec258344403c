import { sharedFloat64Array, sharedInt32Array } from '../files/typed-arrays.js';
import type { TaskDatasetDescription } from './task-dataset.js';

/** Collects encoded sequences, then packs them into shared memory. */
export class TaskSequences {
  // Grows by doubling: a list of numbers would take three times the memory.
  #tokens = new Int32Array(1 << 12);
  #numTokens = 0;
  readonly #offsets: number[] = [0];
  readonly #firstLengths: number[] = [];

  /** Appends one sequence whose first `firstLength` tokens have type 0. */
  add({ tokens, firstLength }: { readonly tokens: ArrayLike<number>; readonly firstLength: number }): void {
    const end = this.#numTokens + tokens.length;
    if (end > this.#tokens.length) {
      const grown = new Int32Array(Math.max(end, 2 * this.#tokens.length));
      grown.set(this.#tokens);
      this.#tokens = grown;
    }
    this.#tokens.set(tokens, this.#numTokens);
    this.#numTokens = end;
    this.#offsets.push(end);
    this.#firstLengths.push(firstLength);
  }

  /** The arrays of a dataset's description. */
  pack(): Pick<TaskDatasetDescription, 'tokens' | 'offsets' | 'firstLengths'> {
    const tokens = sharedInt32Array(this.#numTokens);
    tokens.set(this.#tokens.subarray(0, this.#numTokens));
    const offsets = sharedFloat64Array(this.#offsets.length);
    offsets.set(this.#offsets);
    return { tokens, offsets, firstLengths: sharedCopy(this.#firstLengths) };
  }
}

/** The values as int32 in shared memory. */
export function sharedCopy(values: readonly number[]): Int32Array {
  const result = sharedInt32Array(values.length);
  result.set(values);
  return result;
}
