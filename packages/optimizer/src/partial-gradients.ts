import type { ProcessGroup } from '@mtl/comm';
import { cast, Tensor } from '@mtl/kernels';
import type { FlatRange, ParameterRange } from './store/flat-layout.js';
import { ownedPartsOf } from './store/flat-store.js';
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
