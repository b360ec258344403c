import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { cast, type Device, sumOfSquares, Tensor } from '@mtl/kernels';
import { type FlatRange, intersectRanges, type ParameterRange } from './store/flat-layout.js';
import { listOwnedParts } from './store/flat-store.js';
import { copiesAlong, instancesGroup, type ParallelGroups } from './store/parallel-groups.js';
import type { ParameterStore } from './store/parameter-store.js';

/**
 * Sums partial gradients over a group in a single operation. Each group member has computed a partial sum of
 * these gradients. They belong to layer norms, row-parallel biases and the position embedding under sequence
 * parallelism (see Korthikanti et al. 2022, section 4.2.2), or to a tied word embedding on the first and the
 * last stage of a pipeline.
 *
 * The store reduces gradients before this sum, so that its reduction can overlap with the backward pass. The
 * sum then covers only the elements that a rank updates. Sums over tensor-parallel and data-parallel ranks
 * commute, and all ranks use the same order.
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
    this.#parts = ranges.flatMap((range) => listOwnedParts(store, range));
    const size = this.#parts.reduce((sum, { start, end }) => sum + end - start, 0);
    // all group members have the same layout, so either every member has something to sum, or no member has.
    // A single tensor (a tied embedding, which is large) is summed in place
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

  /** Calls `body` with each slice of the gradients and with a view of the slice's place in `joined`. */
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

/** How many gradients are converted at a time, so that they stay in the processor's cache. */
const gradientsAtATime = 2 ** 18;

/** Adds the sum of the squares of `gradients` (float32 or bfloat16) to `output`, float64 [1]. */
export function addSquares(output: Tensor, gradients: Tensor): void {
  if (gradients.dtype === 'float32') {
    sumOfSquares({ output, input: gradients, accumulate: true });
    return;
  }
  const { size, device } = gradients;
  using room = Tensor.empty({ shape: [Math.min(size, gradientsAtATime)], dtype: 'float32', device });
  for (let offset = 0; offset < size; offset += gradientsAtATime) {
    const shape = [Math.min(gradientsAtATime, size - offset)];
    using part = gradients.view({ offset, shape });
    using floats = room.view({ shape });
    cast({ output: floats, input: part });
    sumOfSquares({ output, input: floats, accumulate: true });
  }
}

/**
 * The norm of all gradients in the complete model. Each value counts once: a rank counts its part of every
 * store (`counted`), and counts a parameter that several ranks have only if it is the first of these ranks.
 * `counted` does not depend on the distributed optimizer, so the bits of the norm do not depend on it either.
 * Squares are summed in float64, in the order of the ranks.
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
   * Computes the square of the norm of reduced gradients, float64 [1], which stays on the device. The result
   * is the same on all ranks, even if it is infinite or NaN. This object owns the tensor, and the next call
   * overwrites it.
   */
  computeSquare(): Tensor {
    this.#squares.zero();
    for (const gradients of this.#runs) addSquares(this.#squares, gradients);
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

/**
 * Returns the longest ranges whose elements all count on this rank. They may include padding, which is zero.
 */
function countedRuns({ counted, ranges }: ParameterStore, groups: ParallelGroups): FlatRange[] {
  return counted.flatMap((part) => {
    const runs: FlatRange[] = [];
    let isOpen = false;
    for (const range of ranges) {
      const common = intersectRanges(part, range);
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
  // within an instance, `counted` divides the elements over the ranks that sum gradients, so each element
  // counts once; the ranks of all instances except the first count nothing
  if ((instancesGroup(groups, parameter.placement.view)?.rank ?? 0) > 0) return false;
  return parameter.copiedOver.every((axis) => (copiesAlong(groups, axis)?.rank ?? 0) === 0);
}
