import { count, nonNegativeNumber, openToggle, positiveNumber } from '../flags/flag-kinds.js';
import type { ArchitectureField, KnownValues } from './architecture-field.js';

/** The spelling of a number of Llama 3.1, which models do not state. */
const unless = (usual: number) => (value: unknown) => (value === usual ? undefined : value);

const isNotYarn = ({ positionEmbeddingType }: KnownValues): boolean => positionEmbeddingType !== 'yarn';
const isNotLlama3 = ({ positionEmbeddingType, useRopeScaling }: KnownValues): boolean =>
  positionEmbeddingType !== 'rope' || useRopeScaling !== true;

/** A property that models with some positions have, where there is a value. */
const ofPositions = (isUnused: (known: KnownValues) => boolean, usual?: number | boolean) =>
  ({
    kind: 'gpt',
    isOptional: true,
    isUnused,
    otherwise: (known: KnownValues) => (isUnused(known) ? undefined : usual),
    rotaryAlternatives: 'all',
  }) as const;

const hasNoWeights = (known: KnownValues): boolean =>
  isNotYarn(known) || known.yarnAttentionFactor !== undefined;

/**
 * Rotary positions for longer sequences than those of pretraining in the table of the architecture: Llama 3.1
 * by the names of transformers, YaRN by Megatron-LM's and with its defaults. No flag has a default in its
 * schema: configurations of other models have none of these keys.
 */
export const rotaryScalingFields = {
  'rope-scaling-original-max-position-embeddings': {
    flag: count('Positions of pretraining, of --use-rope-scaling.', {
      defaultText: '8192',
      canonical: unless(8192),
    }),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingOriginalMaxPositionEmbeddings',
    decides: 'weights',
  },
  'rope-scaling-low-freq-factor': {
    flag: positiveNumber(
      'Wavelengths longer than the positions of pretraining divided by this are multiplied by --use-rope-scaling.',
      { defaultText: '1', canonical: unless(1) },
    ),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingLowFreqFactor',
    decides: 'weights',
  },
  'rope-scaling-high-freq-factor': {
    flag: positiveNumber(
      'Wavelengths shorter than the positions of pretraining divided by this are kept by --use-rope-scaling.',
      { defaultText: '4', canonical: unless(4) },
    ),
    ...ofPositions(isNotLlama3),
    key: 'ropeScalingHighFreqFactor',
    decides: 'weights',
  },
  'rotary-scaling-factor': {
    flag: positiveNumber('Factor of yarn: how many times as many positions as in pretraining.', {
      defaultText: '1',
    }),
    ...ofPositions(isNotYarn, 1),
    key: 'rotaryScalingFactor',
    decides: 'weights',
  },
  'yarn-original-max-position-embeddings': {
    flag: count('Positions of pretraining, of yarn.', { defaultText: '4096' }),
    ...ofPositions(isNotYarn, 4096),
    key: 'yarnOriginalMaxPositionEmbeddings',
    decides: 'weights',
  },
  'yarn-beta-fast': {
    flag: positiveNumber(
      'Yarn keeps frequencies that turn at least so often within the positions of pretraining.',
      {
        defaultText: '32',
      },
    ),
    ...ofPositions(isNotYarn, 32),
    key: 'yarnBetaFast',
    decides: 'weights',
  },
  'yarn-beta-slow': {
    flag: positiveNumber(
      'Yarn divides frequencies that turn at most so often within the positions of pretraining.',
      {
        defaultText: '1',
      },
    ),
    ...ofPositions(isNotYarn, 1),
    key: 'yarnBetaSlow',
    decides: 'weights',
  },
  'yarn-correction-range-round-to-int': {
    flag: openToggle(
      'Lets the range of frequencies that yarn mixes begin and end at whole indices. On unless switched off.',
    ),
    ...ofPositions(isNotYarn, true),
    key: 'yarnCorrectionRangeRoundToInt',
    decides: 'weights',
  },
  mscale: {
    flag: nonNegativeNumber(
      'Weight of ln(--rotary-scaling-factor) / 10 in what yarn multiplies queries and keys by.',
      {
        defaultText: '1',
      },
    ),
    ...ofPositions(hasNoWeights, 1),
    key: 'mscale',
    decides: 'weights',
  },
  'mscale-all-dim': {
    flag: nonNegativeNumber('The same weight in what yarn divides them by.', { defaultText: '0' }),
    ...ofPositions(hasNoWeights, 0),
    key: 'mscaleAllDim',
    decides: 'weights',
  },
  'yarn-attention-factor': {
    flag: positiveNumber(
      'What yarn multiplies queries and keys by, in place of what follows from --mscale and --mscale-all-dim.',
    ),
    ...ofPositions(isNotYarn),
    key: 'yarnAttentionFactor',
    decides: 'weights',
  },
} as const satisfies Readonly<Record<string, ArchitectureField>>;
