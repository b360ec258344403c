import type { Parameter } from '@mtl/autograd';
import { type Device, sumOfSquares, Tensor } from '@mtl/kernels';
import { copiesAlong, type ParallelGroups } from './parallel-groups.js';
import { type FlatRange, intersectionOf } from './store/flat-layout.js';
import type { ParameterStore } from './store/parameter-store.js';

/**
 * Norm of the gradients of all parameters of the whole model, each value counted once: of every store a rank
 * counts its part (`counted`, the same with and without a distributed optimizer, so that both give the same
 * bits), and of parameters that other ranks hold as well only where it is the first of them. Squares are
 * summed in float64, over ranks in their order.
 */
export class GradientNorm {
  readonly #runs: readonly Tensor[];
  readonly #squares: Tensor;
  readonly #groups: ParallelGroups;

  constructor(
    stores: readonly ParameterStore[],
    { groups, device }: { readonly groups: ParallelGroups; readonly device: Device },
  ) {
    this.#groups = groups;
    this.#runs = stores.flatMap((store) => countedRuns(store, groups).map((run) => store.gradient(run)));
    this.#squares = Tensor.zeros({ shape: [1], dtype: 'float64', device });
  }

  /**
   * The square of the norm of reduced gradients, [1] float64 and left on the device: the same on all ranks;
   * infinite or NaN on all when it is on one. Stays this object's; the next call overwrites it.
   */
  computeSquare(): Tensor {
    this.#squares.zero();
    for (const input of this.#runs) sumOfSquares({ output: this.#squares, input, accumulate: true });
    this.#groups.world?.allReduce(this.#squares).wait();
    return this.#squares;
  }

  dispose(): void {
    for (const tensor of [...this.#runs, this.#squares]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The longest ranges in which everything counts on this rank; padding is zero and does no harm. */
function countedRuns({ counted, ranges }: ParameterStore, groups: ParallelGroups): FlatRange[] {
  return counted.flatMap((part) => {
    const runs: FlatRange[] = [];
    let isOpen = false;
    for (const range of ranges) {
      const common = intersectionOf(part, range);
      if (common === undefined) continue;
      const counts = countsHere(range.parameter, groups);
      if (!counts) {
        isOpen = false;
        continue;
      }
      if (isOpen) runs.push({ start: runs.pop()!.start, end: common.end });
      else runs.push(common);
      isOpen = true;
    }
    return runs;
  });
}

function countsHere(parameter: Parameter, groups: ParallelGroups): boolean {
  // along the axes over which gradients are summed the stores see to it
  return parameter.copiedOver.every((axis) => (copiesAlong(groups, axis)?.rank ?? 0) === 0);
}
