import { type YarnVariants, yarnConcentration, yarnScaling } from '@mtl/models/internal';

import type { KnownProperties } from './config-fields.js';
import type { RopeParameters } from './rope-parameters.js';

/**
 * The properties of a model with the rope type yarn, as transformers reads it: an attention_factor counts
 * before the two weights, and these count only where neither is 0 or missing.
 */
export function yarnProperties(parameters: RopeParameters): YarnVariants {
  const originalPositions = parameters.originalPositions();
  const factor = parameters.isStated('factor')
    ? parameters.positive('factor')
    : parameters.maxPositions / originalPositions;
  // 0 is the default as well
  const [betaFast, betaSlow] = [parameters.number('beta_fast') || 32, parameters.number('beta_slow') || 1];
  if (betaFast < betaSlow) throw parameters.refuse('a beta_fast of beta_slow or more');
  return {
    rotaryScalingFactor: factor,
    yarnOriginalMaxPositionEmbeddings: originalPositions,
    yarnBetaFast: betaFast,
    yarnBetaSlow: betaSlow,
    yarnCorrectionRangeRoundToInt: parameters.truth('truncate', true),
    ...weights(parameters),
  };
}

function weights(parameters: RopeParameters): YarnVariants {
  if (parameters.isStated('attention_factor')) {
    return { yarnAttentionFactor: parameters.positive('attention_factor') };
  }
  const [own, all] = [parameters.number('mscale'), parameters.number('mscale_all_dim')];
  const areUsed = own !== 0 && all !== 0;
  return { mscale: areUsed ? own : 1, mscaleAllDim: areUsed ? all : 0 };
}

/** What config.json states of such a model; what is as by default is left out. */
export function writtenYarn(model: YarnVariants): KnownProperties {
  const { factor, originalPositions, betaFast, betaSlow, roundsRange } = yarnScaling(model);
  return {
    factor,
    original_max_position_embeddings: originalPositions,
    ...(betaFast === 32 ? {} : { beta_fast: betaFast }),
    ...(betaSlow === 1 ? {} : { beta_slow: betaSlow }),
    ...(roundsRange ? {} : { truncate: false }),
    ...writtenWeights(model),
  };
}

function writtenWeights(model: YarnVariants): KnownProperties {
  const { mscale = 1, mscaleAllDim = 0, yarnAttentionFactor } = model;
  if (yarnAttentionFactor === undefined && mscale !== 0 && mscaleAllDim !== 0) {
    return { mscale, mscale_all_dim: mscaleAllDim };
  }
  const { rotaryScalingFactor } = model;
  const concentration = yarnConcentration(model);
  // that of the weights 1 and 0 is what transformers computes without both
  const isUsual =
    yarnAttentionFactor === undefined && concentration === yarnConcentration({ rotaryScalingFactor });
  return isUsual ? {} : { attention_factor: concentration };
}
