import type { Parameter } from '@mtl/autograd';
import type { Work } from '@mtl/comm';
import type { Tensor } from '@mtl/kernels';
import { type Bucket, takeSlice } from './flat-layout.js';
import { FlatStore } from './flat-store.js';
import type { ListedStore, StoreOptions } from './parameter-store.js';

/**
 * A store in which every rank of the group has all values and gradients, but only its own slice of the master
 * values of every bucket. A step consists of reduce-scatter, update, and all-gather in the compute dtype (the
 * distributed optimizer; Rajbhandari et al. 2020, ZeRO-1).
 */
export class Zero1Store extends FlatStore {
  readonly #gatherer = new ParameterGatherer();

  constructor(parameters: readonly Parameter[], options: StoreOptions) {
    super(parameters, options, { isDivided: true });
  }

  shareGradients(parameters: readonly Parameter[]): readonly Work[] {
    const { group } = this;
    if (group === undefined) return [];
    const wanted = new Set(parameters);
    return this.buckets
      .filter(({ ranges }) => ranges.some(({ parameter }) => wanted.has(parameter)))
      .map((bucket) => {
        using output = this.gradient(bucket);
        using input = this.gradient(takeSlice(bucket, group.rank, group.size));
        return group.allGather({ output, input });
      });
  }

  publish(index: number): void {
    const { group } = this;
    if (group === undefined) return;
    const bucket = this.buckets[index]!;
    using output = this.model(bucket);
    using input = this.model(this.owned[index]!);
    this.#gatherer.add(group.allGather({ output, input }), bucket);
  }

  override refresh(): void {
    super.refresh();
    for (const index of this.buckets.keys()) this.publish(index);
    this.waitForValues();
  }

  waitForValues(): void {
    this.#gatherer.finish();
  }

  override dispose(): void {
    this.#gatherer.abandon();
    super.dispose();
  }

  protected startReduction(bucket: Bucket, input: Tensor): Work {
    const group = this.group!;
    using output = this.gradient(takeSlice(bucket, group.rank, group.size));
    return group.reduceScatter({ output, input });
  }
}

export const zero1 = {
  shardingStrategy: 'optim',
  divides: ['optimizer'],
  releasesValues: false,
  create: (parameters, options) => new Zero1Store(parameters, options),
} as const satisfies ListedStore;

/**
 * The gathers of parameters in progress. The next read of a parameter waits for its bucket, so that gathers
 * overlap with the forward pass, unless `finish` is called.
 */
class ParameterGatherer {
  #works: Work[] = [];

  /** Takes the gather that fills a bucket's values. */
  add(work: Work, { ranges }: Bucket): void {
    this.#works.push(work);
    for (const { parameter } of ranges) parameter.deferData(() => work.wait());
  }

  /** Waits for all gathers that were started. */
  finish(): void {
    for (const work of this.#works) work.wait();
    this.#works = [];
  }

  /**
   * Waits until no operation writes into the buffers, so that they can be freed. Failed operations count as
   * ended. The reader of their result gets the error.
   */
  abandon(): void {
    for (const work of this.#works) {
      try {
        work.wait();
      } catch {
        // an error here would hide the error that ends the run
      }
    }
    this.#works = [];
  }
}
