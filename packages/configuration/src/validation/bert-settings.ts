import { configuredFields } from '../architecture/configured-fields.js';
import type { BertConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

type FieldsOfFlags = Omit<BertConfiguration, 'maskProbability' | 'shortSequenceProbability'>;

/** What a BERT has in addition to what all models have. */
export function bertSettings(flags: FlagReader): BertConfiguration {
  return {
    ...(configuredFields(flags, 'bert') as unknown as FieldsOfFlags),
    maskProbability: flags.required('mask-prob'),
    shortSequenceProbability: flags.required('short-seq-prob'),
  };
}
