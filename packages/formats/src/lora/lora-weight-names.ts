import { sizeOf } from '@mtl/kernels';
import type { GptModelConfiguration } from '@mtl/models';
import { gptWeightNames } from '../huggingface/gpt-weight-names.js';
import { qkvColumns } from '../huggingface/gpt2-weight-mappings.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { gptTypeOf } from '../huggingface/statable-models.js';
import {
  type HuggingFaceTensor,
  reorderedRows,
  sameLayout,
  transposedWeight,
  type WeightMapping,
} from '../huggingface/weight-mapping.js';
import { type AdaptedWeight, adaptedWeights } from './adapted-weights.js';
import type { LoraConfiguration } from './lora-configuration.js';

/**
 * How PEFT's files name the adapters of a model, which must be one of the transformers library: A and B of a
 * layer are `lora_A.weight` [r, I] and `lora_B.weight` [O, r] there, also of GPT-2's transposed layers; those
 * of all experts together [E r, I], expert by expert, and [O, r E], whose columns are those of the first rank
 * of all experts, then those of the next.
 */
export function loraWeightNames(model: GptModelConfiguration, lora: LoraConfiguration): WeightNames {
  const isGpt2 = gptTypeOf(model) === 'gpt2';
  const { prefix } = gptWeightNames(isGpt2 ? 'gpt2' : 'llama', model);
  const all = adaptedWeights(model, lora);
  const hasBothOfExperts = all.some(isOfFirstLayer) && all.some(isOfSecondLayer);
  const mappings = all.flatMap((adapted): WeightMapping[] => {
    const { layer, path, isOfExperts, down, up } = adapted;
    const place = isOfExperts ? wrapperOfExperts(path, hasBothOfExperts && isOfFirstLayer(adapted)) : path;
    const source: SourceOf = (factor, shape) => ({
      name: `${isGpt2 ? 'h' : 'layers'}.${layer}.${place}.lora_${factor}.weight`,
      shape,
    });
    if (isOfExperts) return mappingsOfExperts(adapted, source);
    const rank = down.globalShape[0]!;
    const outputs = up.globalShape.slice(0, -1).reduce((product, size) => product * size, 1);
    return [
      sameLayout(down.name, source('A', down.globalShape)),
      upMapping(adapted, source('B', [outputs, rank]), { isGpt2, model }),
    ];
  });
  return { mappings, prefix: `base_model.model.${prefix}`, isIgnored: () => false };
}

const isOfFirstLayer = ({ target }: AdaptedWeight): boolean => target === 'expertsFc1';
const isOfSecondLayer = ({ target }: AdaptedWeight): boolean => target === 'expertsFc2';

/**
 * What PEFT calls the wrapper of a parameter of experts: it wraps the module that has the parameter, once for
 * each parameter, so that the first one of two is inside of the other.
 */
const wrapperOfExperts = (path: string, isInner: boolean): string =>
  `${path.slice(0, path.lastIndexOf('.'))}${isInner ? '.base_layer' : ''}`;

type SourceOf = (factor: 'A' | 'B', shape: readonly number[]) => HuggingFaceTensor;

function mappingsOfExperts({ down, up }: AdaptedWeight, source: SourceOf): WeightMapping[] {
  const [numExperts, rank, inputs] = down.globalShape as [number, number, number];
  const outputs = sizeOf(up.globalShape) / (numExperts * rank);
  const stored = source('B', [outputs, rank * numExperts]);
  const { globalShape } = up;
  const matrix = { ...stored, shape: [outputs * rank, numExperts] };
  return [
    sameLayout(down.name, source('A', [numExperts * rank, inputs]), down.globalShape),
    { ...transposedWeight(up.name, matrix, { globalShape }), sources: [stored] },
  ];
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
