import type { ProcessGroup, Work } from '@mtl/comm';
import { hasValues, type RouterScoreFunction, routerStatisticsForward, sumRows, Tensor } from '@mtl/kernels';

interface RouterSumsOptions {
  /** float32 [T, E]. Row t belongs to sequence `t % numSequences`. */
  readonly logits: Tensor;
  readonly topK: number;
  readonly scoreFunction: RouterScoreFunction;
  /** N */
  readonly numSequences: number;
}

/**
 * Sums from a single pass over a router's logits, for each sequence and for all sequences. `counts`,
 * `scoreSums` and `squares` are views of one float32 vector, so that a single all-reduce sums them over
 * processes.
 */
export class RouterSums {
  /** N */
  readonly numSequences: number;
  /** [N, E]: for each sequence, how many of its rows would choose each expert by score. */
  readonly counts: Tensor;
  /** [N, E]: for each sequence, the sum of each expert's scores over its rows. */
  readonly scoreSums: Tensor;
  /** [N]: for each sequence, the sum over its rows of the logits' squared log-sum-exp. */
  readonly squares: Tensor;
  /** [N]: for each sequence, the sum of the scores' entropies in nats. Covers only this process's rows. */
  readonly entropies: Tensor;
  /** [1, E]: sums over all sequences. */
  readonly totalCounts: Tensor;
  readonly totalScoreSums: Tensor;
  /** [1]: the sum of `squares` over all sequences. */
  readonly totalSquares: Tensor;
  readonly #all: Tensor;
  #work: Work | undefined;
  #areTotalsKnown = false;

  constructor({ logits, topK, scoreFunction, numSequences }: RouterSumsOptions) {
    const { device } = logits;
    const numExperts = logits.dim(-1);
    const perExpert = numSequences * numExperts;
    const empty = (shape: readonly number[]) => Tensor.empty({ shape, dtype: 'float32', device });
    this.numSequences = numSequences;
    this.#all = empty([2 * perExpert + numSequences]);
    const part = (offset: number, shape: readonly number[]) => this.#all.view({ offset, shape });
    this.counts = part(0, [numSequences, numExperts]);
    this.scoreSums = part(perExpert, [numSequences, numExperts]);
    this.squares = part(2 * perExpert, [numSequences]);
    this.entropies = empty([numSequences]);
    const total = (of: Tensor, shape: readonly number[]) =>
      numSequences === 1 ? of.view({ shape }) : empty(shape);
    this.totalCounts = total(this.counts, [1, numExperts]);
    this.totalScoreSums = total(this.scoreSums, [1, numExperts]);
    this.totalSquares = total(this.squares, [1]);
    routerStatisticsForward({
      counts: this.counts,
      scoreSums: this.scoreSums,
      squaredLogSumExp: this.squares,
      entropy: this.entropies,
      logits,
      topK,
      scoreFunction,
      numSequences,
    });
  }

  /** Starts to sum over processes with an all-reduce; `finish` waits for it. */
  reduce(group: ProcessGroup): void {
    this.#work = group.allReduce(this.#all);
  }

  /** Waits for the all-reduce, then computes the totals over all sequences. */
  finish(): void {
    this.#work?.wait();
    this.#work = undefined;
    if (this.#areTotalsKnown || this.numSequences === 1) return;
    this.#areTotalsKnown = true;
    addRows(this.totalCounts, this.counts);
    addRows(this.totalScoreSums, this.scoreSums);
    addRows(this.totalSquares, this.squares);
  }

  dispose(): void {
    const ofSequences = [this.counts, this.scoreSums, this.squares, this.entropies, this.#all];
    const totals = [this.totalCounts, this.totalScoreSums, this.totalSquares];
    for (const tensor of [...ofSequences, ...totals]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Sets `total` to the sum of the rows in `input`. The first dimension of `input` counts the rows. Each row
 * has the size of `total`.
 */
function addRows(total: Tensor, input: Tensor): void {
  using rows = input.reshape([input.dim(0), total.size]);
  using output = total.reshape([total.size]);
  sumRows({ output, input: rows });
}

/**
 * Measures how undecided a router is: the entropy of its scores. It is ln E if all experts have equal scores,
 * and 0 if a single expert has the entire score. Entropies are added only while `isWatched` is true.
 */
export class RouterEntropy {
  /** True while entropies are added. */
  isWatched = false;
  /** float32 [1]: the sum of the entropies since the last call of `take`. */
  #sum: Tensor | undefined;
  #numRows = 0;

  /** Adds the entropy sums, float32 [N], of a forward pass over `numRows` rows. */
  add(entropies: Tensor, numRows: number): void {
    this.#sum ??= Tensor.zeros({ shape: [1], dtype: 'float32', device: entropies.device });
    using column = entropies.reshape([entropies.size, 1]);
    sumRows({ output: this.#sum, input: column, accumulate: true });
    this.#numRows += numRows;
  }

  /** Computes the entropies for rows of logits, float32 [T, E], and adds them. */
  addLogits(logits: Tensor, options: Omit<RouterSumsOptions, 'logits' | 'numSequences'>): void {
    using sums = new RouterSums({ ...options, logits, numSequences: 1 });
    this.add(sums.entropies, logits.dim(0));
  }

  /** Returns the sum of the entropies since the last call, in nats, and how many rows it covers. */
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
