import { nearestDivisors, nearestMultiples } from '@mtl/errors';
import type { BertConfiguration, ModelConfiguration } from '../pretraining-configuration.js';
import { bertFlags } from '../schema/flag-schema.js';
import type { FlagReader } from '../validation/flag-reader.js';
import { type ArchitectureField, type KnownValues, modelValue } from './architecture-field.js';
import { architectureFields } from './architecture-fields.js';
import { checkExperts } from './check-experts.js';
import { checkAttentionLayers } from './check-layer-lists.js';
import { checkPositions } from './check-positions.js';
import { type ArchitectureFlag, listFields } from './list-fields.js';
import { configuredField } from './models-of-configuration.js';

/** The architecture fields that a single flag determines. The other fields depend on several flags. */
type FieldsOfFlags = Omit<ModelConfiguration, 'vocabularySize' | 'headSize' | 'sequenceLength'>;

/**
 * Returns the architecture in a run's configuration, from flags and derived values. Fields that only a BERT
 * has are left out.
 *
 * @throws ConfigurationError MTL_FLAG_REQUIRED for a flag without a value
 */
function configuredFields(flags: FlagReader): FieldsOfFlags {
  const sequenceLength = flags.required('seq-length');
  const stated = listFields().map(
    ([name, field]) => [field.key, modelValue(field, flags.get(name))] as const,
  );
  // the kind of model is omitted, because it would also determine the default kind of GELU
  const given = { ...Object.fromEntries(stated), sequenceLength } as KnownValues;
  const width = architectureFields['ffn-hidden-size'].otherwise?.(given) as number;
  const known = { ...given, ffnHiddenSize: given.ffnHiddenSize ?? width };
  const chosen = listFields().filter(([, { kind }]) => kind !== 'bert');
  const values = chosen.map(([name, field]) => {
    const { key, isFlagValue } = configuredField(name, field);
    const value = configuredValue(flags, { name, field, known });
    return [key, isFlagValue ? value : modelValue(field, value)];
  });
  return Object.fromEntries(values) as unknown as FieldsOfFlags;
}

function configuredValue(
  flags: FlagReader,
  {
    name,
    field: { isUnused, otherwise },
    known,
  }: { readonly name: ArchitectureFlag; readonly field: ArchitectureField; readonly known: KnownValues },
): unknown {
  const given = flags.get(name);
  if (isUnused !== undefined) return isUnused(known) ? undefined : (given ?? otherwise?.(known));
  return given ?? otherwise?.(known) ?? flags.required(name);
}

/** Returns the settings that only a BERT has. */
export function bertSettings(flags: FlagReader): BertConfiguration {
  return { ...flags.values(bertFlags), sentenceOrderHead: !flags.required('bert-no-binary-head') };
}

/**
 * Returns the architecture of a run.
 *
 * @param notices collects messages for the user
 * @throws ConfigurationError `MTL_HEADS`, `MTL_EXPERTS`, `MTL_SEQUENCE_LENGTH`, `MTL_FLAG_NEEDS`,
 *   `MTL_FLAG_CONFLICT`, `MTL_FLAG_VALUE` or `MTL_FLAG_REQUIRED`.
 */
export function modelConfiguration(flags: FlagReader, notices: string[] = []): ModelConfiguration {
  const hiddenSize = flags.required('hidden-size');
  const numAttentionHeads = flags.required('num-attention-heads');
  const headSize = flags.get('kv-channels') ?? hiddenSize / numAttentionHeads;
  if (!Number.isInteger(headSize)) {
    const heads = nearestDivisors(hiddenSize, numAttentionHeads);
    const widths = nearestMultiples(numAttentionHeads, hiddenSize);
    flags.refuse('num-attention-heads', `does not divide ${flags.written('hidden-size')}`, {
      code: 'MTL_HEADS',
      expected: `${heads.join(' or ')} heads, or a hidden size of ${widths.join(' or ')}`,
      remedy: `pass --num-attention-heads ${heads.at(-1)}`,
      details: { hiddenSize, numAttentionHeads, heads, widths },
    });
  }
  checkQueryGroups(flags, numAttentionHeads);
  checkBlocks(flags);
  checkExperts(flags, notices);
  checkAttentionLayers(flags);
  const sequenceLength = flags.required('seq-length');
  const maxPositionEmbeddings = flags.get('max-position-embeddings') ?? sequenceLength;
  checkPositions(flags, { headSize, maxPositions: maxPositionEmbeddings }, notices);
  if (sequenceLength > maxPositionEmbeddings) {
    flags.refuse('seq-length', `is longer than ${flags.written('max-position-embeddings')}`, {
      code: 'MTL_SEQUENCE_LENGTH',
      expected: `at most ${maxPositionEmbeddings} tokens per sample`,
      remedy: flags.isLoaded('max-position-embeddings')
        ? `pass --seq-length ${maxPositionEmbeddings}`
        : `pass --seq-length ${maxPositionEmbeddings} or --max-position-embeddings ${sequenceLength}`,
    });
  }
  const { vocabularySize } = flags;
  return {
    ...configuredFields(flags),
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
  flags.refuse('num-query-groups', `does not divide ${flags.written('num-attention-heads')}`, {
    code: 'MTL_HEADS',
    expected: `${groups.join(' or ')} groups`,
    remedy: `pass --num-query-groups ${groups.at(-1)}`,
    details: { numAttentionHeads, numQueryGroups, groups },
  });
}

function checkBlocks(flags: FlagReader): void {
  checkQueryKeyNorm(flags);
  for (const name of ['swiglu', 'squared-relu', 'quick-geglu'] as const) {
    if (flags.get(name) !== true || !flags.isGiven('gelu')) continue;
    flags.conflict({ flags: [name, 'gelu'], why: 'a feed-forward layer has one activation' });
  }
  checkGates(flags);
}

function checkQueryKeyNorm(flags: FlagReader): void {
  const name = 'qk-norm-whole-width';
  if (flags.get(name) !== true) return;
  if (flags.get('normalization') === 'RMSNorm') return;
  flags.needs(name, '--normalization RMSNorm', 'is of RMSNorm');
}

function checkGates(flags: FlagReader): void {
  if (flags.get('quick-geglu') === true || flags.required('swiglu')) return;
  for (const name of ['glu-linear-offset', 'activation-func-clamp-value'] as const) {
    if (flags.get(name) === undefined) continue;
    flags.needs(
      name,
      '--swiglu or --quick-geglu',
      'changes gated feed-forward layers, and these have no gates',
    );
  }
}
