import { type LoraConfiguration, loraSpecificationOf } from '@mtl/formats';
import { gptModelOf } from '../architecture/models-of-configuration.js';
import { loraFlags } from '../flags/checkpoint-flags.js';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import type { FlagName } from '../schema/flag-schema.js';
import type { FlagReader } from './flag-reader.js';

/**
 * Returns the adapters to train, where any are asked for.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS, MTL_FLAG_NEEDS, MTL_FLAG_CONFLICT
 */
export function adapterConfiguration(
  flags: FlagReader,
  model: ModelConfiguration,
): LoraConfiguration | undefined {
  const rank = flags.get('lora-rank');
  if (rank === undefined) {
    for (const name of [...(Object.keys(loraFlags) as FlagName[]), 'save-lora' as const]) {
      if (flags.isGiven(name)) flags.needs(name, '--lora-rank N', 'has no adapters to belong to');
    }
    return undefined;
  }
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
  const lora = {
    rank,
    alpha: flags.get('lora-alpha') ?? rank,
    useRslora: flags.required('use-rslora'),
    dropout: flags.required('lora-dropout'),
    targets: flags.get('lora-targets') ?? ['all-linear'],
  };
  // refuses names that no layer of the model has; the size of the vocabulary has no part in it
  loraSpecificationOf(lora, gptModelOf(model, flags.vocabularySize ?? 1));
  return lora;
}
