import type { BertConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';

/** What a BERT has in addition to what all models have. */
export function bertConfiguration(flags: FlagReader): BertConfiguration {
  return {
    layerNormPlacement: flags.required('layer-norm-placement'),
    sentenceOrderHead: !flags.required('bert-no-binary-head'),
    maskProbability: flags.required('mask-prob'),
    shortSequenceProbability: flags.required('short-seq-prob'),
  };
}
