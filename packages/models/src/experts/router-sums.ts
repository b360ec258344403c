import type { ProcessGroup, Work } from '@mtl/comm';
import { type RouterScoreFunction, routerStatisticsForward, sumRows, Tensor } from '@mtl/kernels';

export interface RouterSumsOptions {
  /** float32 [T, E]: row t is of sequence t % `numSequences`. */
  readonly logits: Tensor;
  readonly topK: number;
  readonly scoreFunction: RouterScoreFunction;
  /** N */
  readonly numSequences: number;
}

/**
 * The sums of one pass over the logits of a router, of each sequence and of all: parts of one vector of
 * float32, which is summed over processes at once.
 */
export class RouterSums {
  /** N */
  readonly numSequences: number;
  /** [N, E]: the rows that would choose an expert by its score. */
  readonly counts: Tensor;
  /** [N, E] */
  readonly scoreSums: Tensor;
  /** [N]: of log-sum-exp of a row's logits, squared. */
  readonly squares: Tensor;
  /** [N], of this process: of the entropies of scores, in nats. */
  readonly entropies: Tensor;
  /** [1, E]: those of all sequences. */
  readonly totalCounts: Tensor;
  readonly totalScoreSums: Tensor;
  /** [1] */
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

  /** Starts to add up the sums of processes; `finish` waits for them. */
  reduce(group: ProcessGroup): void {
    this.#work = group.allReduce(this.#all);
  }

  /** Waits for other processes, and adds up the sums of sequences. */
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

/** total = the sum over the first dimension of `input`, which has as many elements in each row. */
function addRows(total: Tensor, input: Tensor): void {
  using rows = input.reshape([input.dim(0), total.size]);
  using output = total.reshape([total.size]);
  sumRows({ output, input: rows });
}
