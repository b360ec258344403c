import { Adamw, type AdamwOptions } from './adamw.js';
import { ModelOptimizer, type ModelOptimizerOptions } from './model-optimizer.js';
import type { ParameterStore } from './store/parameter-store.js';

export interface AdamwOptimizerOptions extends Omit<ModelOptimizerOptions, 'optimizer'>, AdamwOptions {}

/** A `ModelOptimizer` with the update rule `Adamw`, whose defaults are those of PyTorch's AdamW. */
export class AdamwOptimizer extends ModelOptimizer {
  constructor(
    stores: readonly ParameterStore[],
    { beta1, beta2, epsilon, ...options }: AdamwOptimizerOptions = {},
  ) {
    super(stores, { ...options, optimizer: new Adamw({ beta1, beta2, epsilon }) });
  }
}
