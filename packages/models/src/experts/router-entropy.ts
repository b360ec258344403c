import { add, hasValues, type RouterScoreFunction, routerStatisticsForward, Tensor } from '@mtl/kernels';

/**
 * How undecided a router is: the entropy of its scores, which is ln E where it prefers no expert and 0 where
 * it always gives one expert all. Computed only while it is watched: a pass over the logits.
 */
export class RouterEntropy {
  /** Whether rows are added now. */
  isWatched = false;
  /** float32 [1] */
  #sum: Tensor | undefined;
  #numRows = 0;

  /** Adds the rows of a pass: float32 [T, E]. */
  add(
    logits: Tensor,
    { topK, scoreFunction }: { readonly topK: number; readonly scoreFunction: RouterScoreFunction },
  ): void {
    const statistics = routerStatisticsForward({ logits, topK, scoreFunction, numSequences: 1 });
    for (const name of ['counts', 'scoreSums', 'squaredLogSumExp'] as const) statistics[name].dispose();
    using entropy = statistics.entropy;
    this.#sum ??= Tensor.zeros({ shape: [1], dtype: 'float32', device: logits.device });
    add({ output: this.#sum, left: this.#sum, right: entropy });
    this.#numRows += logits.dim(0);
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
