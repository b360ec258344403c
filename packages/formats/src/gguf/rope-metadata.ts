import {
  computeHeadSize,
  type GptModelConfiguration,
  llama3Scaling,
  yarnConcentration,
  yarnScaling,
} from '@mtl/models';
import { float32, type Metadata, text, uint32 } from './metadata.js';

/** Returns YaRN's attention factor for the scaling factor `factor`, computed as in llama.cpp. */
const usualConcentration = (factor: number): number => (factor <= 1 ? 1 : 1 + 0.1 * Math.log(factor));

/** Returns the metadata that describe the base and the scaling of rotary positions. */
export function ropeMetadata(key: (name: string) => string, model: GptModelConfiguration): Metadata {
  const { rotaryBase = 10_000, positionEmbeddingType, rotarySeqLenInterpolationFactor: linear = 1 } = model;
  const base = { [key('rope.freq_base')]: float32(rotaryBase) };
  if (positionEmbeddingType === 'yarn') {
    const { factor, originalPositions, betaFast, betaSlow } = yarnScaling(model);
    return {
      ...base,
      [key('rope.scaling.type')]: text('yarn'),
      [key('rope.scaling.factor')]: float32(factor),
      [key('rope.scaling.original_context_length')]: uint32(originalPositions),
      [key('rope.scaling.yarn_beta_fast')]: float32(betaFast),
      [key('rope.scaling.yarn_beta_slow')]: float32(betaSlow),
      [key('rope.scaling.attn_factor')]: float32(yarnConcentration(model) / usualConcentration(factor)),
    };
  }
  if (linear === 1) return base;
  return {
    ...base,
    [key('rope.scaling.type')]: text('linear'),
    [key('rope.scaling.factor')]: float32(linear),
  };
}

/**
 * Returns Llama 3.1's frequency divisors [D / 2], one for each pair of features. Files contain them as the
 * tensor `rope_freqs.weight`. Returns undefined for models without this scaling.
 */
export function frequencyDivisors(model: GptModelConfiguration): Float32Array | undefined {
  if (model.useRopeScaling !== true) return undefined;
  const {
    factor,
    lowFrequencyFactor: low,
    highFrequencyFactor: high,
    originalPositions,
  } = llama3Scaling(model);
  const { rotaryBase = 10_000 } = model;
  const size = computeHeadSize(model);
  return Float32Array.from({ length: size / 2 }, (_, pair) => {
    const wavelength = 2 * Math.PI * rotaryBase ** ((2 * pair) / size);
    if (wavelength < originalPositions / high) return 1;
    if (wavelength > originalPositions / low) return factor;
    const smooth = (originalPositions / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}
