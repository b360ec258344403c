import type { Llama3Scaling, RotaryScaling } from '@mtl/kernels';
import { hasRotaryPositions, type PositionVariants } from './position-variants.js';
import type { RotarySpecification } from './rotary-positions.js';
import { yarnScaling } from './yarn-scaling.js';

/** The rotary position embeddings of a model; undefined where it knows positions otherwise. */
export function rotarySpecification(
  model: PositionVariants,
  headSize: number,
): RotarySpecification | undefined {
  const { rotaryBase: base = 10_000, rotaryPercent = 1, rotaryInterleaved: interleaved = false } = model;
  const rotarySize = Math.floor(headSize * rotaryPercent);
  if (!hasRotaryPositions(model.positionEmbeddingType)) return undefined;
  return { base, rotarySize, interleaved, scaling: scalingOf(model) };
}

function scalingOf(model: PositionVariants): RotaryScaling | undefined {
  const {
    positionEmbeddingType,
    useRopeScaling = false,
    rotarySeqLenInterpolationFactor: factor = 1,
  } = model;
  if (positionEmbeddingType === 'yarn') return yarnScaling(model);
  if (useRopeScaling) return llama3Scaling(model);
  return factor === 1 ? undefined : { kind: 'linear', factor };
}

/** Numbers that are absent are those of Llama 3.1, as in Megatron-LM. */
export const llama3Scaling = (model: PositionVariants): Llama3Scaling => ({
  kind: 'llama3',
  factor: model.ropeScalingFactor ?? 8,
  lowFrequencyFactor: model.ropeScalingLowFreqFactor ?? 1,
  highFrequencyFactor: model.ropeScalingHighFreqFactor ?? 4,
  originalPositions: model.ropeScalingOriginalMaxPositionEmbeddings ?? 8192,
});
