import {
  type Llama3Scaling,
  type RotaryFrequenciesOptions,
  type RotaryScaling,
  rotaryTable,
  type YarnScaling,
} from '@mtl/kernels';
import type { PositionTable } from './position-tables.js';
import { hasRotaryPositions, type PositionVariants, type YarnVariants } from './transformer-configuration.js';

/** The rotary position embeddings of an attention layer (Su et al. 2021). */
export interface RotarySpecification extends RotaryFrequenciesOptions {
  /**
   * True if a pair consists of elements 2i and 2i + 1 of a head; false if it consists of elements i and i + R
   * / 2.
   */
  readonly interleaved: boolean;
}

/** Returns the table with the angles of rotary position embeddings. */
export function rotaryPositions({ rotarySize, base, scaling }: RotarySpecification): PositionTable {
  const options: RotaryFrequenciesOptions = { rotarySize, base, scaling };
  return {
    name: `rotary angles ${JSON.stringify(options)}`,
    width: rotarySize,
    values: (numPositions) => {
      using table = rotaryTable({ ...options, numPositions, device: 'cpu' });
      return table.read<'float32'>();
    },
  };
}

/**
 * Returns the specification of a model's rotary position embeddings, or undefined if the model encodes
 * positions differently.
 */
export function rotarySpecification(
  model: PositionVariants,
  headSize: number,
): RotarySpecification | undefined {
  const { rotaryBase: base = 10_000, rotaryPercent = 1, rotaryInterleaved: interleaved = false } = model;
  const rotarySize = Math.floor(headSize * rotaryPercent);
  if (!hasRotaryPositions(model.positionEmbeddingType)) return undefined;
  return { base, rotarySize, interleaved, scaling: chooseScaling(model) };
}

function chooseScaling(model: PositionVariants): RotaryScaling | undefined {
  const {
    positionEmbeddingType,
    useRopeScaling = false,
    rotarySeqLenInterpolationFactor: factor = 1,
  } = model;
  if (positionEmbeddingType === 'yarn') return yarnScaling(model);
  if (useRopeScaling) return llama3Scaling(model);
  return factor === 1 ? undefined : { kind: 'linear', factor };
}

/**
 * Returns the frequency scaling of Llama 3.1. Undefined options have the values of Llama 3.1, as in
 * Megatron-LM.
 */
export const llama3Scaling = (model: PositionVariants): Llama3Scaling => ({
  kind: 'llama3',
  factor: model.ropeScalingFactor ?? 8,
  lowFrequencyFactor: model.ropeScalingLowFreqFactor ?? 1,
  highFrequencyFactor: model.ropeScalingHighFreqFactor ?? 4,
  originalPositions: model.ropeScalingOriginalMaxPositionEmbeddings ?? 8192,
});

/**
 * Returns the attention temperature of YaRN. `weight` is 1 in the paper. The temperature is 1 if the model
 * has no more positions than in pretraining (`factor` <= 1).
 */
const temperature = (factor: number, weight: number): number =>
  factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1;

/** Returns the factor for the cosines and sines of YaRN. */
export function yarnConcentration(model: YarnVariants): number {
  const { rotaryScalingFactor: factor = 1, mscale = 1, mscaleAllDim = 0, yarnAttentionFactor } = model;
  return yarnAttentionFactor ?? temperature(factor, mscale) / temperature(factor, mscaleAllDim);
}

/** Returns the frequency scaling of a model whose position embedding type is `yarn`. */
export const yarnScaling = (model: YarnVariants): YarnScaling => ({
  kind: 'yarn',
  factor: model.rotaryScalingFactor ?? 1,
  originalPositions: model.yarnOriginalMaxPositionEmbeddings ?? 4096,
  betaFast: model.yarnBetaFast ?? 32,
  betaSlow: model.yarnBetaSlow ?? 1,
  roundsRange: model.yarnCorrectionRangeRoundToInt ?? true,
  concentration: yarnConcentration(model),
});
