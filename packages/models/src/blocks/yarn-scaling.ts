import type { YarnScaling } from '@mtl/kernels';
import type { YarnVariants } from './position-variants.js';

/** A factor of YaRN, by its paper with a weight of 1: 1 where positions are not more than in pretraining. */
const temperature = (factor: number, weight: number): number =>
  factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1;

/** What the cosines and sines of YaRN are multiplied by. */
export function yarnConcentration(model: YarnVariants): number {
  const { rotaryScalingFactor: factor = 1, mscale = 1, mscaleAllDim = 0, yarnAttentionFactor } = model;
  return yarnAttentionFactor ?? temperature(factor, mscale) / temperature(factor, mscaleAllDim);
}

/** How a model with the positions `yarn` scales its frequencies. */
export const yarnScaling = (model: YarnVariants): YarnScaling => ({
  kind: 'yarn',
  factor: model.rotaryScalingFactor ?? 1,
  originalPositions: model.yarnOriginalMaxPositionEmbeddings ?? 4096,
  betaFast: model.yarnBetaFast ?? 32,
  betaSlow: model.yarnBetaSlow ?? 1,
  roundsRange: model.yarnCorrectionRangeRoundToInt ?? true,
  concentration: yarnConcentration(model),
});
