import { specifyLora } from '@mtl/formats';
import type { GptModelConfiguration } from '@mtl/models';
import type { FlagReader } from '../validation/flag-reader.js';
import type { AdaptedConfiguration } from './adapted-configuration.js';
import { adapterFlags } from './adapter-flags.js';

/**
 * Checks that --load-lora can be combined with the other flags.
 *
 * @throws ConfigurationError `MTL_FLAG_NEEDS` or `MTL_FLAG_CONFLICT`
 */
export function checkAdapterPlaces(flags: FlagReader): void {
  const loadLora = flags.get('load-lora');
  const load = flags.get('load');
  if (loadLora !== undefined && load !== undefined && !flags.required('finetune')) {
    flags.conflict({
      flags: ['load-lora', 'load'],
      why: 'a resumed run has the adapters of its checkpoint',
      remedy: 'leave --load-lora out, or add --finetune to begin a new run with its weights',
    });
  }
  if (loadLora !== undefined && load === undefined && flags.get('load-hf') === undefined) {
    flags.needs('load-lora', '--load-hf DIR', 'has no weights to adapt');
  }
}

/**
 * Returns the adapters to train, if flags request any.
 *
 * `model` returns the model that is adapted.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS, MTL_FLAG_NEEDS, MTL_FLAG_CONFLICT
 */
export function adapterConfiguration(
  flags: FlagReader,
  model: () => GptModelConfiguration,
): AdaptedConfiguration {
  const rank = flags.get('lora-rank');
  if (rank === undefined) return {};
  if (flags.get('load') === undefined && flags.get('load-hf') === undefined) {
    flags.needs('lora-rank', '--load-hf DIR or --load DIR', 'has no trained weights to adapt');
  }
  if (flags.required('optimizer') === 'muon') {
    flags.conflict({
      flags: ['lora-rank', 'optimizer'],
      why: 'Muon updates the matrices of hidden layers, which adapters leave as they are',
      remedy: 'leave --optimizer muon out',
    });
  }
  if (flags.required('qk-clip')) {
    flags.conflict({
      flags: ['qk-clip', 'lora-rank'],
      why: 'the weights of queries and keys next to adapters do not change',
      remedy: 'leave --qk-clip out',
    });
  }
  const lora = { alpha: rank, targets: ['all-linear'], ...flags.values(adapterFlags), rank };
  // throws for target names that no layer of the model has
  specifyLora(lora, model());
  return { lora };
}

/**
 * Returns a notice if flags set a separate learning rate for embedding and output layer of a model with
 * adapters: these layers are not trained.
 */
export const noteOfDecoupledRate = (flags: FlagReader): string | undefined =>
  flags.get('lora-rank') === undefined
    ? undefined
    : '--decoupled-lr has no effect with --lora-rank: embedding and output layer are not trained';

/**
 * Returns the number of adapter values for `numFeatures` input or output features, and the flag that sets the
 * number.
 */
export const sizeOfAdapters = (flags: FlagReader, { numFeatures }: { readonly numFeatures: number }) => ({
  numValues: numFeatures * (flags.get('lora-rank') ?? 0),
  flag: 'lora-rank' as const,
});
