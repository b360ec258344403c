import type { ProcessGroup } from '@mtl/comm';
import { cast, Tensor } from '@mtl/kernels';
import { type FlatRange, intersectionOf, type ParameterRange } from './flat-layout.js';
import type { ParameterBuffers } from './parameter-buffers.js';

/**
 * Sums over a group the gradients of which each member has computed only a part (layer norms, row-parallel
 * biases and the position embedding under sequence parallelism, Korthikanti et al. 2022, section 4.2.2; a
 * tied word embedding on both ends of a pipeline), all in one operation.
 *
 * It runs after the data-parallel reduction, so that this can overlap with backward, and only over what a
 * rank updates: sums over tensor-parallel and data-parallel ranks commute, and this order is the same on all
 * of them.
 */
export class PartialGradients {
  readonly #gradients: Tensor;
  readonly #group: ProcessGroup;
  readonly #parts: readonly FlatRange[];
  readonly #joined: Tensor | undefined;

  constructor(
    { gradients, owned }: ParameterBuffers,
    { ranges, group }: { readonly ranges: readonly ParameterRange[]; readonly group: ProcessGroup },
  ) {
    this.#gradients = gradients;
    this.#group = group;
    this.#parts = owned.flatMap((held) =>
      ranges.map((range) => intersectionOf(held, range)).filter((part) => part !== undefined),
    );
    const size = this.#parts.reduce((sum, { start, end }) => sum + end - start, 0);
    // members of the group have the same layout: where there is nothing to sum, there is nothing on any of
    // them; and one part (a tied embedding, which is large) is summed where it lies
    this.#joined =
      this.#parts.length < 2
        ? undefined
        : Tensor.empty({ shape: [size], dtype: 'float32', device: gradients.device });
  }

  sum(): void {
    const [first] = this.#parts;
    if (first === undefined) return;
    const joined = this.#joined;
    if (joined === undefined) {
      using part = this.#gradients.view({ offset: first.start, shape: [first.end - first.start] });
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

  /** Calls `body` with each part of the gradients and its place in the joined buffer. */
  #forParts(joined: Tensor, body: (part: Tensor, place: Tensor) => void): void {
    let offset = 0;
    for (const { start, end } of this.#parts) {
      const shape = [end - start];
      using part = this.#gradients.view({ offset: start, shape });
      using place = joined.view({ offset, shape });
      body(part, place);
      offset += end - start;
    }
  }
}
