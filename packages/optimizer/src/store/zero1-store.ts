import type { Parameter } from '@mtl/autograd';
import type { Work } from '@mtl/comm';
import type { Bucket } from './flat-layout.js';
import { FlatStore } from './flat-store.js';
import type { ListedStore, StoreOptions } from './parameter-store.js';

/**
 * The store of the distributed optimizer (Rajbhandari et al. 2020, ZeRO-1). Every rank of the group keeps all
 * values and gradients. It updates only its slice of every bucket, and only this rank has the slice's master
 * values. A step consists of reduce-scatter, update, and all-gather in the compute dtype. A subclass can keep
 * fewer gradients.
 */
export class Zero1Store extends FlatStore {
  readonly #gatherer = new ParameterGatherer();

  constructor(
    parameters: readonly Parameter[],
    options: StoreOptions,
    { dividesGradients = false }: { readonly dividesGradients?: boolean } = {},
  ) {
    super(parameters, options, { isDivided: true, dividesGradients });
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
}

export const zero1 = {
  shardingStrategy: 'optim',
  divides: ['optimizer'],
  releasesValues: false,
  create: (parameters, options) => new Zero1Store(parameters, options),
} as const satisfies ListedStore;

/**
 * The gathers of parameters in progress. The next read of a parameter waits for the gather of its bucket, so
 * that gathers overlap with the forward pass, unless `finish` is called.
 */
class ParameterGatherer {
  #works: Work[] = [];

  /** Adds `work`, the gather that fills the given bucket's values. */
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
   * ended. Their errors are not thrown here, because a caller that reads the results gets them.
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
