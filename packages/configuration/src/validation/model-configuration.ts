import { ConfigurationError } from '@mtl/errors';
import { configuredFields } from '../architecture/configured-fields.js';
import type { ModelConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { nearestDivisors, nearestMultiples } from './nearest-values.js';

/** All but what follows from several flags. */
type FieldsOfFlags = Omit<ModelConfiguration, 'vocabularySize' | 'headSize' | 'sequenceLength'>;

/**
 * @throws ConfigurationError `MTL_HEADS`, `MTL_SEQUENCE_LENGTH`, `MTL_FLAG_NEEDS` or `MTL_FLAG_REQUIRED`.
 */
export function modelConfiguration(flags: FlagReader): ModelConfiguration {
  const hiddenSize = flags.required('hidden-size');
  const numAttentionHeads = flags.required('num-attention-heads');
  const headSize = flags.get('kv-channels') ?? hiddenSize / numAttentionHeads;
  if (!Number.isInteger(headSize)) {
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
  checkQueryGroups(flags, numAttentionHeads);
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
    ...(configuredFields(flags, 'others') as unknown as FieldsOfFlags),
    ...(vocabularySize === undefined ? {} : { vocabularySize }),
    headSize,
    sequenceLength,
  };
}

function checkQueryGroups(flags: FlagReader, numAttentionHeads: number): void {
  const numQueryGroups = flags.get('num-query-groups');
  if (numQueryGroups === undefined || numAttentionHeads === numQueryGroups) return;
  if (!flags.required('group-query-attention')) {
    flags.needs('num-query-groups', '--group-query-attention', 'has no effect without it');
  }
  if (numAttentionHeads % numQueryGroups === 0) return;
  const groups = nearestDivisors(numAttentionHeads, numQueryGroups);
  throw new ConfigurationError(
    'MTL_HEADS',
    `${flags.written('num-query-groups')} does not divide ${flags.written('num-attention-heads')}`,
    {
      expected: `${groups.join(' or ')} groups`,
      remedy: `pass --num-query-groups ${groups.at(-1)}`,
      details: { numAttentionHeads, numQueryGroups, groups },
    },
  );
}
