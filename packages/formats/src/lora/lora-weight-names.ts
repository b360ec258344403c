import { countElements } from '@mtl/kernels';
import { type BlockAdapter, type GptModelConfiguration, GptStage } from '@mtl/models';
import { gptWeightNames, qkvColumns } from '../huggingface/gpt-weight-names.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { chooseGptType } from '../huggingface/statable-models.js';
import {
  type HuggingFaceTensor,
  reorderedRows,
  sameLayout,
  transposedWeight,
  type WeightMapping,
} from '../huggingface/weight-mapping.js';
import type { LoraConfiguration } from './lora-configuration.js';
import { loraModules, specifyLora } from './lora-modules.js';

/**
 * Returns the names of a model's adapters in PEFT files. The model must be a model of the transformers
 * library. A layer's factors are `lora_A.weight` [r, I] and `lora_B.weight` [O, r], even for GPT-2's
 * transposed layers. For a layer of E experts, A is [E * r, I], expert by expert, and B is [O, r * E]: first
 * the columns of all experts for the first LoRA rank, then the columns for the second rank, and so on.
 */
export function loraWeightNames(model: GptModelConfiguration, lora: LoraConfiguration): WeightNames {
  const isGpt2 = chooseGptType(model) === 'gpt2';
  const { prefix } = gptWeightNames(isGpt2 ? 'gpt2' : 'llama', model);
  const all = adaptedWeights(model, lora);
  const hasBothOfExperts = all.some(isOfFirstLayer) && all.some(isOfSecondLayer);
  const mappings = all.flatMap((adapted): WeightMapping[] => {
    const { layer, path, isOfExperts, down, up } = adapted;
    const place = isOfExperts ? wrapperOfExperts(path, hasBothOfExperts && isOfFirstLayer(adapted)) : path;
    const source: MakeSource = (factor, shape) => ({
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
 * Returns the name of PEFT's wrapper around a parameter of experts. PEFT wraps the experts' module once for
 * each adapted parameter. The first parameter's wrapper is inside the second parameter's wrapper.
 */
const wrapperOfExperts = (path: string, isInner: boolean): string =>
  `${path.slice(0, path.lastIndexOf('.'))}${isInner ? '.base_layer' : ''}`;

type MakeSource = (factor: 'A' | 'B', shape: readonly number[]) => HuggingFaceTensor;

function mappingsOfExperts({ down, up }: AdaptedWeight, source: MakeSource): WeightMapping[] {
  const [numExperts, rank, inputs] = down.globalShape as [number, number, number];
  const outputs = countElements(up.globalShape) / (numExperts * rank);
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

/** A model's adapter, not sharded and without allocated memory. */
export interface AdaptedWeight extends BlockAdapter {
  readonly layer: number;
  /** The layer's path within a block of the transformers library, for example `self_attn.q_proj`. */
  readonly path: string;
  /** True if the adapter has separate factors for each routed expert. */
  readonly isOfExperts: boolean;
}

/**
 * Returns all adapters of a model, layer by layer.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS in the same cases as `specifyLora`
 */
export function adaptedWeights(model: GptModelConfiguration, configuration: LoraConfiguration) {
  const lora = specifyLora(configuration, model);
  const modules = new Map(loraModules(model).map((module) => [module.target, module]));
  const { blocks } = new GptStage({ model, lora, device: 'cpu', dtype: 'float32', seed: 0 });
  return blocks.flatMap(({ adapters }, layer) =>
    adapters.map((adapter): AdaptedWeight => {
      const { path, isParameter = false } = modules.get(adapter.target)!;
      return { ...adapter, layer, path, isOfExperts: isParameter };
    }),
  );
}
