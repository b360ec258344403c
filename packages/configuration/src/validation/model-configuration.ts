import { ConfigurationError } from '@mtl/errors';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { nearestDivisors, nearestMultiples } from './nearest-values.js';

/** @throws ConfigurationError `MTL_HEADS`, `MTL_SEQUENCE_LENGTH` or `MTL_FLAG_REQUIRED`. */
export function modelConfiguration(flags: FlagReader): ModelConfiguration {
  const hiddenSize = flags.required('hidden-size');
  const numAttentionHeads = flags.required('num-attention-heads');
  if (hiddenSize % numAttentionHeads !== 0) {
    const heads = nearestDivisors(hiddenSize, numAttentionHeads);
    const widths = nearestMultiples(numAttentionHeads, hiddenSize);
    throw new ConfigurationError(
      'MTL_HEADS',
      `${flags.written('num-attention-heads')} does not divide ${flags.written('hidden-size')}`,
      {
        expected: `${heads.join(' or ')} heads, or a hidden size of ${widths.join(' or ')}`,
        remedy: `pass --num-attention-heads ${heads.at(-1)}`,
        details: { hiddenSize, numAttentionHeads, heads, widths },
      },
    );
  }
  const sequenceLength = flags.required('seq-length');
  const maxPositionEmbeddings = flags.get('max-position-embeddings') ?? sequenceLength;
  if (sequenceLength > maxPositionEmbeddings) {
    throw new ConfigurationError(
      'MTL_SEQUENCE_LENGTH',
      `${flags.written('seq-length')} is longer than ${flags.written('max-position-embeddings')}`,
      {
        expected: `at most ${maxPositionEmbeddings} tokens per sample`,
        remedy: flags.isLoaded('max-position-embeddings')
          ? `pass --seq-length ${maxPositionEmbeddings}`
          : `pass --seq-length ${maxPositionEmbeddings} or --max-position-embeddings ${sequenceLength}`,
      },
    );
  }
  const { vocabularySize } = flags;
  return {
    ...(vocabularySize === undefined ? {} : { vocabularySize }),
    numLayers: flags.required('num-layers'),
    hiddenSize,
    ffnHiddenSize: flags.get('ffn-hidden-size') ?? 4 * hiddenSize,
    numAttentionHeads,
    headSize: hiddenSize / numAttentionHeads,
    sequenceLength,
    maxPositionEmbeddings,
    attentionDropout: flags.required('attention-dropout'),
    hiddenDropout: flags.required('hidden-dropout'),
    layerNormEpsilon: flags.required('norm-epsilon'),
    geluKind: flags.get('gelu'),
    initMethodStd: flags.required('init-method-std'),
    untieEmbeddingsAndOutputWeights: flags.required('untie-embeddings-and-output-weights'),
    makeVocabSizeDivisibleBy: flags.required('make-vocab-size-divisible-by'),
  };
}
