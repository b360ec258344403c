import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { cast, type Device, sumOfSquares, Tensor } from '@mtl/kernels';
import { type FlatRange, intersectionOf, type ParameterRange } from './store/flat-layout.js';
import { ownedPartsOf } from './store/flat-store.js';
import { copiesAlong, type ParallelGroups } from './store/parallel-groups.js';
import type { ParameterStore } from './store/parameter-store.js';

/**
 * Sums over a group the gradients of which each member has computed only a part (layer norms, row-parallel
 * biases and the position embedding under sequence parallelism, Korthikanti et al. 2022, section 4.2.2; a
 * tied word embedding on both ends of a pipeline), all in one operation.
 *
 * It runs after the store's reduction, so that this can overlap with backward, and only over what a rank
 * updates: sums over tensor-parallel and data-parallel ranks commute, and this order is the same on all of
 * them.
 */
export class PartialGradients {
  readonly #store: ParameterStore;
  readonly #group: ProcessGroup;
  readonly #parts: readonly FlatRange[];
  readonly #joined: Tensor | undefined;

  constructor(
    store: ParameterStore,
    { ranges, group }: { readonly ranges: readonly ParameterRange[]; readonly group: ProcessGroup },
  ) {
    this.#store = store;
    this.#group = group;
    this.#parts = ranges.flatMap((range) => ownedPartsOf(store, range));
    const size = this.#parts.reduce((sum, { start, end }) => sum + end - start, 0);
    // members of the group have the same layout: where there is nothing to sum, there is nothing on any of
    // them; and one part (a tied embedding, which is large) is summed where it lies
    this.#joined =
      this.#parts.length < 2
        ? undefined
        : Tensor.empty({ shape: [size], dtype: 'float32', device: store.device });
  }

  sum(): void {
    const [first] = this.#parts;
    if (first === undefined) return;
    const joined = this.#joined;
    if (joined === undefined) {
      using part = this.#store.gradient(first);
      this.#group.allReduce(part).wait();
      return;
    }
    this.#forParts(joined, (part, place) => cast({ output: place, input: part }));
    this.#group.allReduce(joined).wait();
    this.#forParts(joined, (part, place) => cast({ output: part, input: place }));
  }

  dispose(): void {
    this.#joined?.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Calls `body` with each part of the gradients and its place in the joined buffer. */
  #forParts(joined: Tensor, body: (part: Tensor, place: Tensor) => void): void {
    let offset = 0;
    for (const range of this.#parts) {
      using part = this.#store.gradient(range);
      using place = joined.view({ offset, shape: part.shape });
      body(part, place);
      offset += part.size;
    }
  }
}

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
