import type { Parameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { cast, countElements, Tensor } from '@mtl/kernels';
import type { Slice } from '@mtl/layout';
import type { FlatRange, ParameterRange } from './store/flat-layout.js';
import type { ParallelGroups } from './store/parallel-groups.js';
import type { ParameterStore } from './store/parameter-store.js';
import type { SharedGradients } from './store/stored-gradients.js';

/** An entry in the `matrices` of a parameter. */
export interface MatrixOfParameter {
  readonly range: ParameterRange;
  /** A box of the complete parameter. */
  readonly box: readonly Slice[];
}

const measureShape = (box: readonly Slice[]): number[] => box.map(({ start, end }) => end - start);

const computeStrides = (shape: readonly number[]): number[] =>
  shape.map((_, dim) => countElements(shape.slice(dim + 1)));

/**
 * Returns a view of the box `part` in `tensor`, whose elements are the box `whole`. Both boxes are in the
 * coordinates of the same parameter.
 */
function boxIn(tensor: Tensor, { whole, part }: { whole: readonly Slice[]; part: readonly Slice[] }): Tensor {
  const strides = computeStrides(measureShape(whole));
  const offset = part.reduce((sum, { start }, dim) => sum + (start - whole[dim]!.start) * strides[dim]!, 0);
  return tensor.strided({ offset, shape: measureShape(part), strides });
}

const intersection = (left: readonly Slice[], right: readonly Slice[]): Slice[] =>
  left.map(({ start, end }, dim) => ({
    start: Math.max(start, right[dim]!.start),
    end: Math.min(end, right[dim]!.end),
  }));

const isSame = (left: readonly Slice[], right: readonly Slice[]): boolean =>
  left.every(({ start, end }, dim) => start === right[dim]!.start && end === right[dim]!.end);

/**
 * Gives update rules access to complete matrices whose values are sharded over ranks. An update rule first
 * writes its directions into the memory of the gradients, and calls `gather`. Then it reads each complete
 * matrix, and writes back the result for this rank's shard. Finally it updates the elements that this rank
 * owns from this result. Every rank reads the same bits. If the ranks of a store own slices of parameters,
 * each rank keeps the states for its own slice. A matrix that extends over several slices is read by every
 * rank that owns a part.
 */
export class WholeMatrices {
  readonly #store: ParameterStore;
  /** The ranks that share a matrix: along tp, or along etp for experts. */
  readonly #sharing: ProcessGroup | undefined;
  /** The parameters whose matrices are read. */
  readonly #parameters: readonly Parameter[];
  /** A buffer for the largest matrix that is not read in place. */
  #whole: Tensor | undefined;
  #shards: Tensor | undefined;
  #shared: SharedGradients | undefined;

  /**
   * Selects the store's parameters whose matrices the update rule reads, which are the parameters for which
   * `isRead` returns true.
   */
  constructor(
    store: ParameterStore,
    {
      groups,
      isRead,
    }: { readonly groups: ParallelGroups; readonly isRead: (parameter: Parameter) => boolean },
  ) {
    this.#store = store;
    const all = store.ranges.map(({ parameter }) => parameter);
    const sharing = all[0]?.placement.view === 'expert' ? groups.etp : groups.tp;
    this.#sharing = sharing !== undefined && sharing.size > 1 ? sharing : undefined;
    this.#parameters = all.filter((parameter) => parameter.matrices.length > 0 && isRead(parameter));
  }

  /** Allocates the memory that `read` needs for `matrices`, so that no step allocates memory. */
  reserve(matrices: readonly MatrixOfParameter[]): void {
    const sizes = matrices
      .filter(({ range, box }) => !isSame(box, range.parameter.slices))
      .map(({ range, box }) => {
        const own = intersection(box, range.parameter.slices);
        const size = countElements(measureShape(box));
        const isGathered = this.#listShards(range.parameter, { box, own }).length > 1;
        return { size, gathered: isGathered ? size + countElements(measureShape(own)) : 0 };
      });
    this.#whole = this.#roomFor(this.#whole, Math.max(0, ...sizes.map(({ size }) => size)));
    this.#shards = this.#roomFor(this.#shards, Math.max(0, ...sizes.map(({ gathered }) => gathered)));
  }

  /** Starts to fetch the values that the store's other ranks have written. `take` waits for them. */
  gather(): void {
    this.#shared = this.#store.shareGradients(this.#parameters);
  }

  /**
   * Waits for the bucket that contains the store's owned range at `index`. Until the next call, `read`,
   * `direction` and `write` use matrices in this bucket. Every rank must call this method for all owned
   * ranges, the last range first, even if the rank reads no matrix.
   */
  take(index: number): void {
    this.#shared?.take(index);
  }

  /** Waits for the communication that `gather` has started. */
  finishGather(): void {
    this.#shared?.finish();
    this.#shared = undefined;
  }

  /**
   * Returns the direction for the elements in `range`, [end - start], as `write` has left it. The caller
   * disposes of the view.
   */
  direction(range: FlatRange): Tensor {
    return this.#shared!.gradient(range);
  }

  /**
   * Returns the given matrix, [outputs, inputs] float32, gathered from all ranks that share it (along tp, or
   * along etp for experts). `reserve` must have been called with the matrix before. All these ranks must call
   * this method in the same order. The tensor is valid until the next call of `read` or `write`. The caller
   * disposes of it.
   */
  read({ range, box }: MatrixOfParameter): Tensor {
    const { parameter } = range;
    const own = intersection(box, parameter.slices);
    const [size, inputs] = [countElements(measureShape(box)), measureShape(box).at(-1)!];
    const shape = [size / inputs, inputs];
    using gradient = this.direction(range);
    if (isSame(box, parameter.slices)) return gradient.view({ shape });
    const whole = this.#whole!.view({ shape });
    using shard = boxIn(gradient, { whole: parameter.slices, part: own });
    const shards = this.#listShards(parameter, { box, own });
    if (shards.length === 1) {
      using output = boxIn(whole, { whole: box, part: own });
      cast({ output, input: shard });
      return whole;
    }
    const room = this.#shards!;
    using input = room.view({ offset: size, shape: shard.shape });
    cast({ output: input, input: shard });
    using output = room.view({ shape: [size] });
    this.#sharing!.allGather({ output, input }).wait();
    shards.forEach((part, rank) => {
      using from = room.view({ offset: rank * shard.size, shape: shard.shape });
      using to = boxIn(whole, { whole: box, part });
      cast({ output: to, input: from });
    });
    return whole;
  }

  /** Writes this rank's shard of `matrix`, [outputs, inputs] in any floating-point dtype. */
  write({ range, box }: MatrixOfParameter, matrix: Tensor): void {
    const { slices } = range.parameter;
    const part = intersection(box, slices);
    using gradient = this.direction(range);
    using output = boxIn(gradient, { whole: slices, part });
    using input = boxIn(matrix, { whole: box, part });
    cast({ output, input });
  }

  dispose(): void {
    this.#whole?.dispose();
    this.#shards?.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /**
   * Returns the box of each rank's shard of the matrix. If each rank has the complete matrix, the list has
   * only one box.
   */
  #listShards(
    { name, slices }: Parameter,
    { box, own }: { readonly box: readonly Slice[]; readonly own: readonly Slice[] },
  ): Slice[][] {
    const sharded = own.findIndex(
      ({ start, end }, dim) => start !== box[dim]!.start || end !== box[dim]!.end,
    );
    if (sharded === -1) return [[...own]];
    const { rank, size } = this.#sharing ?? { rank: 0, size: 1 };
    const { start, end } = own[sharded]!;
    const length = end - start;
    const isEven =
      start === slices[sharded]!.start &&
      start === rank * length &&
      box[sharded]!.start === 0 &&
      box[sharded]!.end === size * length;
    if (!isEven) {
      throw new UsageError('MTL_GROUP', `a matrix of ${name} is not sharded evenly over ${size} ranks`, {
        expected: 'equal shards along one dimension, by rank, of matrices that are whole along it',
      });
    }
    return Array.from({ length: size }, (_, of) =>
      own.map((slice, dim) => (dim === sharded ? { start: of * length, end: (of + 1) * length } : slice)),
    );
  }

  #roomFor(old: Tensor | undefined, size: number): Tensor | undefined {
    if (size <= (old?.size ?? 0)) return old;
    old?.dispose();
    return Tensor.empty({ shape: [size], dtype: 'float32', device: this.#store.device });
  }
}
