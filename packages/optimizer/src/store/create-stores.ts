import { domainsOf, type Parameter } from '@mtl/autograd';
import { type ParallelGroups, reductionGroup } from './parallel-groups.js';
import type { ParameterStore, StoreKind, StoreOptions } from './parameter-store.js';
import { ReplicatedStore } from './replicated-store.js';
import { Zero1Store } from './zero1-store.js';

/** The ways to keep parameters, by name. */
export const stores = {
  replicated: {
    releasesValues: false,
    create: (parameters, options) => new ReplicatedStore(parameters, options),
  },
  zero1: { releasesValues: false, create: (parameters, options) => new Zero1Store(parameters, options) },
} satisfies Readonly<Record<string, StoreKind>>;

export type StoreName = keyof typeof stores;

export interface CreateStoresOptions extends Omit<StoreOptions, 'group'> {
  /** Writes the initial values of this seed (`ParameterStore.initialize`). Default: all are zero. */
  readonly seed?: number | undefined;
  /** The kind of the stores. Default `replicated`. */
  readonly kind?: StoreName | StoreKind | undefined;
  /** Default: this process alone. */
  readonly groups?: ParallelGroups | undefined;
}

/**
 * The stores of a model's parameters: one for each domain, which are the parameters whose gradients are
 * summed over the same processes.
 */
export function createStores(
  parameters: readonly Parameter[],
  { kind = 'replicated', groups = {}, seed, ...options }: CreateStoresOptions,
): readonly ParameterStore[] {
  const { create }: StoreKind = typeof kind === 'string' ? stores[kind] : kind;
  return domainsOf(parameters).map(({ view, parameters: ofDomain }) => {
    const store = create(ofDomain, { ...options, group: reductionGroup(groups, view) });
    if (seed !== undefined) store.initialize(seed);
    return store;
  });
}
