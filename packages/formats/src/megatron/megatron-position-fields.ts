import type { PositionEmbeddingType } from '@mtl/models';
import { hasRotaryPositions } from '@mtl/models/internal';
import { type ConfigField, checkedNumber, size, truth } from '../huggingface/config-fields.js';

const positive = checkedNumber({ isValid: (value) => value > 0, expected: 'a number above 0' });
const weight = checkedNumber({ isValid: (value) => value >= 0, expected: 'a number, 0 or more' });
const share = checkedNumber({
  isValid: (value) => value > 0 && value <= 1,
  expected: 'a number above 0, at most 1',
});

const positionTypes = {
  gpt: ['learned_absolute', 'rope', 'yarn', 'none'],
  bert: ['learned_absolute', 'rope'],
} as const;

const positionEmbeddingType = (kind: keyof typeof positionTypes): ConfigField => ({
  key: 'positionEmbeddingType',
  names: ['position_embedding_type'],
  read: (fields) => {
    const isRotary = fields.optional('use_rotary_position_embeddings', 'true or false', false);
    const otherwise = isRotary ? 'rope' : 'learned_absolute';
    const type: string = fields.optional('position_embedding_type', 'a string', otherwise);
    const types: readonly string[] = positionTypes[kind];
    if (types.includes(type)) return type;
    throw fields.unsupported('position_embedding_type', {
      needs: 'those positions',
      expected: types.join(', '),
    });
  },
  write: (type) => type ?? 'learned_absolute',
  writeOthers: (type) => ({ add_position_embedding: (type ?? 'learned_absolute') === 'learned_absolute' }),
});

type Types = (type: PositionEmbeddingType | undefined) => boolean;

/** Returns a field that only models with some positions have. */
const ofModels =
  (has: Types) =>
  (field: ConfigField): ConfigField => ({
    ...field,
    read: (fields, known) =>
      has(known.positionEmbeddingType as PositionEmbeddingType) ? field.read(fields, known) : undefined,
    check: (value, known) => (value === undefined ? undefined : field.check?.(value, known)),
  });

const rotary = ofModels(hasRotaryPositions);
const yarn = ofModels((type) => type === 'yarn');

/** Returns a property that Megatron-LM does not have together with yarn: `usual` is what it computes. */
const notOfYarn = (field: ConfigField, usual: unknown): ConfigField => ({
  ...field,
  read: (fields, known) => {
    const value = field.read(fields, known);
    if (known.positionEmbeddingType !== 'yarn' || value === usual) return value;
    const [name = ''] = field.names;
    throw fields.unsupported(name, {
      needs: 'yarn in another form than halves of whole heads',
      expected: `${name} ${String(usual)} with yarn`,
    });
  },
});

/** Numbers that args do not state, or as None, are those of Megatron-LM. */
const yarnFields: readonly ConfigField[] = [
  positive('rotaryScalingFactor', 'rotary_scaling_factor', 1),
  size('yarnOriginalMaxPositionEmbeddings', ['yarn_original_max_position_embeddings'], () => 4096),
  positive('yarnBetaFast', 'yarn_beta_fast', 32),
  positive('yarnBetaSlow', 'yarn_beta_slow', 1),
  truth('yarnCorrectionRangeRoundToInt', 'yarn_correction_range_round_to_int', true),
  weight('mscale', 'mscale', 1),
  weight('mscaleAllDim', 'mscale_all_dim', 0),
];

/** Returns the fields of the positions of a kind of model. */
export const positionFieldsOf = (kind: keyof typeof positionTypes): readonly ConfigField[] => [
  positionEmbeddingType(kind),
  rotary(positive('rotaryBase', 'rotary_base', 10_000)),
  rotary(notOfYarn(share('rotaryPercent', 'rotary_percent', 1), 1)),
  rotary(notOfYarn(truth('rotaryInterleaved', 'rotary_interleaved', false), false)),
  rotary(positive('rotarySeqLenInterpolationFactor', 'rotary_seq_len_interpolation_factor', 1)),
  rotary(truth('useRopeScaling', 'use_rope_scaling', false)),
  rotary(positive('ropeScalingFactor', 'rope_scaling_factor', 8)),
  ...(kind === 'gpt' ? yarnFields.map(yarn) : []),
];

/** Properties of positions that Megatron-LM does not have. */
export const unwrittenPositions: readonly string[] = [
  'ropeScalingOriginalMaxPositionEmbeddings',
  'ropeScalingLowFreqFactor',
  'ropeScalingHighFreqFactor',
  'yarnAttentionFactor',
];
