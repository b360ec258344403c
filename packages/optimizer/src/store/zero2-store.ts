import type { Parameter } from '@mtl/autograd';
import type { ListedStore, StoreOptions } from './parameter-store.js';
import { Zero1Store } from './zero1-store.js';

/**
 * A store in which every rank of the group keeps all values, but only its slices of gradients, master values
 * and states (Rajbhandari et al. 2020, ZeRO-2). A unit's gradients have memory only during the unit's
 * backward pass, and are reduce-scattered in every micro-batch. Updated values are gathered as in
 * `Zero1Store`.
 */
export class Zero2Store extends Zero1Store {
  constructor(parameters: readonly Parameter[], options: StoreOptions) {
    super(parameters, options, { dividesGradients: true });
  }
}

export const zero2 = {
  shardingStrategy: 'optim_grads',
  divides: ['optimizer', 'gradients'],
  releasesValues: false,
  create: (parameters, options) => new Zero2Store(parameters, options),
} as const satisfies ListedStore;
