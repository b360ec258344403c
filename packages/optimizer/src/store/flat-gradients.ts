import type { Parameter, ParameterUnit } from '@mtl/autograd';
import type { ProcessGroup, Work } from '@mtl/comm';
import { type Device, Tensor } from '@mtl/kernels';
import { type Bucket, type FlatLayout, type FlatRange, takeSlice } from './flat-layout.js';
import { ReductionQueue } from './reduction-queue.js';
import type { SharedGradients, StoredGradients } from './stored-gradients.js';

interface FlatGradientsOptions {
  readonly device: Device;
  readonly dtype: 'float32' | 'bfloat16';
  /** The processes over which gradients are summed. Undefined if there is only this process. */
  readonly group: ProcessGroup | undefined;
  /** True if a rank needs the sums only for its slice of every bucket. */
  readonly isDivided: boolean;
  /** See `StoreOptions.chunks`. */
  readonly chunks: ReadonlyMap<number, readonly Parameter[]> | undefined;
}

/**
 * The main gradients of all parameters in one flat buffer, which stays in memory. They are reduced once per
 * step, in contiguous buckets: either all-reduced, or reduce-scattered to the ranks that update slices.
 */
export class FlatGradients implements StoredGradients {
  readonly #layout: FlatLayout;
  readonly #options: FlatGradientsOptions;
  readonly #gradients: Tensor;
  readonly #views: readonly Tensor[];
  readonly #queue: ReductionQueue | undefined;
  #hook: (gradients: Tensor) => void = () => {};

  constructor(layout: FlatLayout, options: FlatGradientsOptions) {
    const { device, dtype, group, chunks } = options;
    this.#layout = layout;
    this.#options = options;
    this.#gradients = Tensor.zeros({ shape: [layout.size], dtype, device });
    this.#views = layout.ranges.map(({ parameter, start }) => {
      const view = this.#gradients.view({ offset: start, shape: parameter.shape });
      parameter.assignMainGradient(view);
      return view;
    });
    this.#queue =
      group && new ReductionQueue(layout.buckets, { chunks, start: (bucket) => this.#start(bucket, group) });
  }

  get bytes(): number {
    return this.#gradients.bytes;
  }

  gradient({ start, end }: FlatRange): Tensor {
    return this.#gradients.view({ offset: start, shape: [end - start] });
  }

  onOwnGradients(hook: (gradients: Tensor) => void): void {
    this.#hook = hook;
  }

  expectLastBackward(chunk: number): void {
    this.#queue?.arm(chunk);
  }

  reduce(): void {
    for (const { parameter } of this.#layout.ranges) parameter.keepGradient();
    if (this.#queue === undefined) this.#hook(this.#gradients);
    else this.#queue.finish();
  }

  /** Starts to gather all buckets that contain `parameters`, if each rank has written only its slices. */
  share(parameters: readonly Parameter[]): SharedGradients {
    const { group, isDivided } = this.#options;
    const wanted = new Set(parameters);
    const works = this.#layout.buckets.map(({ ranges, ...bucket }): Work | undefined => {
      if (group === undefined || !isDivided) return undefined;
      if (!ranges.some(({ parameter }) => wanted.has(parameter))) return undefined;
      using output = this.gradient(bucket);
      using input = this.gradient(takeSlice(bucket, group.rank, group.size));
      return group.allGather({ output, input });
    });
    return {
      take: (index) => works[index]?.wait(),
      gradient: (range) => this.gradient(range),
      finish: () => {
        for (const work of works) work?.wait();
      },
    };
  }

  clear(): void {
    this.#gradients.zero();
  }

  /** Does nothing: all gradients stay. */
  release(_: ParameterUnit): void {}

  dispose(): void {
    for (const tensor of [...this.#views, this.#gradients]) tensor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #start(bucket: Bucket, group: ProcessGroup): Work {
    using gradients = this.gradient(bucket);
    this.#hook(gradients);
    if (!this.#options.isDivided) return group.allReduce(gradients);
    using output = this.gradient(takeSlice(bucket, group.rank, group.size));
    return group.reduceScatter({ output, input: gradients });
  }
}
