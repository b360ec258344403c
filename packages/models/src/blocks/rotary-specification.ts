import type { RotaryScaling } from '@mtl/kernels';
import type { PositionVariants } from './position-variants.js';
import type { RotarySpecification } from './rotary-positions.js';

/** The rotary position embeddings of a model; undefined where it knows positions otherwise. */
export function rotarySpecification(
  model: PositionVariants,
  headSize: number,
): RotarySpecification | undefined {
  const { rotaryBase: base = 10_000, rotaryPercent = 1, rotaryInterleaved: interleaved = false } = model;
  const { useRopeScaling = false, ropeScalingFactor = 8, rotarySeqLenInterpolationFactor = 1 } = model;
  const rotarySize = Math.floor(headSize * rotaryPercent);
  if (model.positionEmbeddingType !== 'rope') return undefined;
  return { base, rotarySize, interleaved, scaling: scaling() };

  function scaling(): RotaryScaling | undefined {
    if (useRopeScaling) {
      // those of Llama 3.1, as in Megatron-LM
      const wavelengths = { lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 8192 };
      return { kind: 'llama3', factor: ropeScalingFactor, ...wavelengths };
    }
    if (rotarySeqLenInterpolationFactor === 1) return undefined;
    return { kind: 'linear', factor: rotarySeqLenInterpolationFactor };
  }
}
