import type { Parameter } from '@mtl/autograd';
import { FlatStore } from './flat-store.js';
import type { ListedStore, StoreOptions } from './parameter-store.js';

/** A store in which every rank of the group keeps and updates everything. Gradients are all-reduced. */
export class ReplicatedStore extends FlatStore {
  constructor(parameters: readonly Parameter[], options: StoreOptions) {
    super(parameters, options, { isDivided: false });
  }

  /** Does nothing, because every rank has computed the same values. */
  publish(): void {}

  /** Does nothing, because no values are sent. */
  waitForValues(): void {}
}

export const replicated = {
  shardingStrategy: 'no_shard',
  divides: [],
  releasesValues: false,
  create: (parameters, options) => new ReplicatedStore(parameters, options),
} as const satisfies ListedStore;
