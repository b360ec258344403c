import { hasValues, sumRows, Tensor } from '@mtl/kernels';
import { RouterSums, type RouterSumsOptions } from './router-sums.js';

/**
 * How undecided a router is: the entropy of its scores, which is ln E where it prefers no expert and 0 where
 * it always gives one expert all. Added only while it is watched.
 */
export class RouterEntropy {
  /** Whether rows are added now. */
  isWatched = false;
  /** float32 [1] */
  #sum: Tensor | undefined;
  #numRows = 0;

  /** Adds the sums of a pass over so many rows, float32 [N]. */
  add(entropies: Tensor, numRows: number): void {
    this.#sum ??= Tensor.zeros({ shape: [1], dtype: 'float32', device: entropies.device });
    using column = entropies.reshape([entropies.size, 1]);
    sumRows({ output: this.#sum, input: column, accumulate: true });
    this.#numRows += numRows;
  }

  /** Adds the rows of logits float32 [T, E], in a pass over them. */
  addLogits(logits: Tensor, options: Omit<RouterSumsOptions, 'logits' | 'numSequences'>): void {
    using sums = new RouterSums({ ...options, logits, numSequences: 1 });
    this.add(sums.entropies, logits.dim(0));
  }

  /** The sum of the entropies of rows since the last call, in nats, and how many rows these were. */
  take(): { readonly sum: number; readonly numRows: number } {
    if (this.#sum === undefined || !hasValues(this.#sum.device)) return { sum: 0, numRows: 0 };
    const taken = { sum: this.#sum.item(), numRows: this.#numRows };
    this.#sum.zero();
    this.#numRows = 0;
    return taken;
  }

  dispose(): void {
    this.#sum?.dispose();
    this.#sum = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
