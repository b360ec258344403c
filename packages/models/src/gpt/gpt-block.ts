import type { RotaryScaling } from '@mtl/kernels';
import type { BlockSpecification } from '../blocks/block-specification.js';
import type { RotarySpecification } from '../blocks/rotary-positions.js';
import { transformerBlockSpecification } from '../blocks/transformer-block-specification.js';
import type { GptModelConfiguration } from './gpt-model-configuration.js';

/**
 * The blocks of a GPT: those of `transformerBlockSpecification`, with norms before sublayers (GPT-2, Radford
 * et al. 2019), and with rotary position embeddings where the model has them (Llama, Touvron et al. 2023).
 *
 * @throws ConfigurationError MTL_ATTENTION_HEADS when the heads do not divide the hidden size, or an odd
 *   number of features would be rotated
 */
export function gptBlock(model: GptModelConfiguration): BlockSpecification {
  const block = transformerBlockSpecification(model, 'pre');
  const { attention } = block;
  const rotary = rotaryOf(model, attention.headSize);
  if (model.positionEmbeddingType !== 'rope') return block;
  return { ...block, attention: { ...attention, rotary } };
}

function rotaryOf(model: GptModelConfiguration, headSize: number): RotarySpecification {
  const { rotaryBase: base = 10_000, rotaryPercent = 1, rotaryInterleaved: interleaved = false } = model;
  const { useRopeScaling = false, ropeScalingFactor = 8, rotarySeqLenInterpolationFactor = 1 } = model;
  const rotarySize = Math.floor(headSize * rotaryPercent);
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
