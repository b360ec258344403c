import { listDomains, type Parameter } from '@mtl/autograd';
import { fullySharded } from './fully-sharded-store.js';
import { type ParallelGroups, reductionGroup } from './parallel-groups.js';
import type { ListedStore, ParameterStore, StoreKind, StoreOptions } from './parameter-store.js';
import { replicated } from './replicated-store.js';
import { zero1 } from './zero1-store.js';
import { zero2 } from './zero2-store.js';

/**
 * All kinds of stores by name, beginning with the kind that shards the least. Flags, runs, dry runs, plans
 * and searches derive their choices from this list.
 */
export const stores = { replicated, zero1, zero2, fullySharded } as const satisfies Readonly<
  Record<string, ListedStore>
>;

export type StoreName = keyof typeof stores;

/** Megatron-LM's names of the stores. */
export type ShardingStrategy = (typeof stores)[StoreName]['shardingStrategy'];

/** Megatron-LM's names for the stores, in the same order as `stores`. */
export const shardingStrategies = Object.values(stores).map(
  ({ shardingStrategy }) => shardingStrategy,
) as readonly ShardingStrategy[];

/** Returns the store that has this name in Megatron-LM. */
export const storeOfStrategy = (strategy: ShardingStrategy): ListedStore =>
  Object.values(stores).find(({ shardingStrategy }) => shardingStrategy === strategy)!;

export interface CreateStoresOptions extends Omit<StoreOptions, 'group'> {
  /**
   * The seed for the initial values (see `ParameterStore.initialize`). If it is undefined, all values are
   * zero.
   */
  readonly seed?: number | undefined;
  /** The kind of the stores. Default `replicated`. */
  readonly kind?: StoreName | StoreKind | undefined;
  /** The process groups of this rank. By default, there is only this process. */
  readonly groups?: ParallelGroups | undefined;
}

/**
 * Creates the stores for a model's parameters, one per domain. A domain is a set of parameters whose
 * gradients are summed over the same processes.
 */
export function createStores(
  parameters: readonly Parameter[],
  { kind = 'replicated', groups = {}, seed, ...options }: CreateStoresOptions,
): readonly ParameterStore[] {
  const chosen: StoreKind = typeof kind === 'string' ? stores[kind] : kind;
  return listDomains(parameters).map(({ view, parameters: ofDomain }) => {
    const group = reductionGroup(groups, view);
    // a single rank cannot gather anything, so its values stay in memory
    const isAlone = group === undefined || group.size === 1;
    const { create } = chosen.releasesValues && isAlone ? stores.replicated : chosen;
    const store = create(ofDomain, { ...options, group });
    if (seed !== undefined) store.initialize(seed);
    return store;
  });
}
