import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { gptWeightNames } from '../huggingface/gpt-weight-names.js';
import { qkvColumns } from '../huggingface/gpt2-weight-mappings.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { gptTypeOf } from '../huggingface/statable-models.js';
import { reorderedRows, sameLayout, type WeightMapping } from '../huggingface/weight-mapping.js';
import { type AdaptedWeight, adaptedWeights } from './adapted-weights.js';
import type { LoraConfiguration } from './lora-configuration.js';

/**
 * How PEFT's files name the adapters of a model, which must be one of the transformers library: A and B of a
 * layer are `lora_A.weight` [r, I] and `lora_B.weight` [O, r] there, also of GPT-2's transposed layers.
 */
export function loraWeightNames(model: GptModelConfiguration, lora: LoraConfiguration): WeightNames {
  const isGpt2 = gptTypeOf(model) === 'gpt2';
  const { prefix } = gptWeightNames(isGpt2 ? 'gpt2' : 'llama', model);
  const mappings = adaptedWeights(model, lora).flatMap((adapted): WeightMapping[] => {
    const { layer, path, down, up } = adapted;
    const source = (factor: string, shape: readonly number[]) => ({
      name: `${isGpt2 ? 'h' : 'layers'}.${layer}.${path}.lora_${factor}.weight`,
      shape,
    });
    const rank = down.globalShape[0]!;
    const outputs = up.globalShape.slice(0, -1).reduce((product, size) => product * size, 1);
    return [
      sameLayout(down.name, source('A', down.globalShape)),
      upMapping(adapted, source('B', [outputs, rank]), { isGpt2, model }),
    ];
  });
  return { mappings, prefix: `base_model.model.${prefix}`, isIgnored: () => false };
}

function upMapping(
  { target, up }: AdaptedWeight,
  source: { readonly name: string; readonly shape: readonly number[] },
  { isGpt2, model }: { readonly isGpt2: boolean; readonly model: GptModelConfiguration },
): WeightMapping {
  const { globalShape } = up;
  if (target !== 'qkv' || !isGpt2) return sameLayout(up.name, source, globalShape);
  const rowOf = qkvColumns(model.hiddenSize, model.numAttentionHeads);
  return reorderedRows(up.name, source, { globalShape, rowOf });
}
