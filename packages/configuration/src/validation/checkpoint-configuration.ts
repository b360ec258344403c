import { checkAdapterPlaces } from '../adapters/adapter-configuration.js';
import type { CheckpointConfiguration } from '../pretraining-configuration.js';
import { checkpointFlags } from '../schema/flag-schema.js';
import type { FlagReader } from './flag-reader.js';

/**
 * Returns the settings for loading and saving checkpoints.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS` or `MTL_FLAG_CONFLICT`.
 */
export function checkpointConfiguration(flags: FlagReader): CheckpointConfiguration {
  flags.checkRelations(checkpointFlags);
  checkUpcycling(flags);
  checkAdapterPlaces(flags);
  const overrides = flags.required('override-opt-param-scheduler');
  const usesCheckpoint = flags.required('use-checkpoint-opt-param-scheduler');
  const { upcycle = false, ...values } = flags.values(checkpointFlags);
  return {
    ...values,
    ...(upcycle && { upcycle }),
    loadOptimizer: !flags.required('no-load-optim') && !values.finetune,
    loadRng: !flags.required('no-load-rng') && !values.finetune,
    schedule: overrides ? 'override' : usesCheckpoint ? 'checkpoint' : 'same',
  };
}

/**
 * Checks the flags for upcycling, which initializes experts with copies of dense layers. The experts must
 * have the shapes of these layers, and the run must be new.
 */
function checkUpcycling(flags: FlagReader): void {
  const name = 'moe-use-upcycling';
  if (flags.get(name) !== true) return;
  if (flags.get('load') === undefined && flags.get('load-hf') === undefined) {
    flags.needs(
      name,
      '--load-hf DIR, or --load DIR with --finetune',
      'has no dense model to take layers from',
    );
  }
  if (flags.get('load') !== undefined && !flags.required('finetune')) {
    flags.needs(name, '--finetune', 'begins a new run with the weights of another model');
  }
  const width = flags.get('moe-ffn-hidden-size');
  if (width === undefined || width === flags.get('ffn-hidden-size')) return;
  flags.conflict({
    flags: [name, 'moe-ffn-hidden-size'],
    why: 'experts that are copies of dense layers have their width',
    remedy: 'leave --moe-ffn-hidden-size out',
  });
}
