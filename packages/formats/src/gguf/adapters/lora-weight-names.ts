import { computeHeadSize, type GptModelConfiguration, gptBlock, type LoraTarget } from '@mtl/models';
import { qkvColumns } from '../../huggingface/gpt-weight-names.js';
import type { WeightNames } from '../../huggingface/mapped-weights.js';
import type { GptTypeName } from '../../huggingface/model-types.js';
import {
  type HuggingFaceTensor,
  mappingOfRuns,
  reorderedRows,
  sameLayout,
  sideBySide,
  type WeightMapping,
} from '../../huggingface/weight-mapping.js';
import type { LoraConfiguration } from '../../lora/lora-configuration.js';
import { type AdaptedWeight, adaptedWeights } from '../../lora/lora-weight-names.js';
import { pairedRows } from '../paired-rows.js';
import { rotatesNeighbours } from '../weight-names.js';

/**
 * For each LoRA target, the GGUF names of the matrices that it adapts. The experts' first linear layer
 * consists of two matrices, gate and up.
 */
const matrices: Readonly<Record<LoraTarget, readonly string[]>> = {
  qkv: ['attn_qkv'],
  query: ['attn_q'],
  key: ['attn_k'],
  value: ['attn_v'],
  projection: ['attn_output'],
  fc1: ['ffn_up'],
  gate: ['ffn_gate'],
  up: ['ffn_up'],
  fc2: ['ffn_down'],
  sharedFc1: ['ffn_up_shexp'],
  sharedGate: ['ffn_gate_shexp'],
  sharedUp: ['ffn_up_shexp'],
  sharedFc2: ['ffn_down_shexp'],
  expertsFc1: ['ffn_gate_exps', 'ffn_up_exps'],
  expertsFc2: ['ffn_down_exps'],
};

const computeProduct = (sizes: readonly number[]): number =>
  sizes.reduce((product, size) => product * size, 1);

/** Maps a LoRA factor to several copies in a file, one for each matrix that uses the factor. */
const repeated = (
  name: string,
  sources: readonly HuggingFaceTensor[],
  globalShape: readonly number[],
): WeightMapping =>
  mappingOfRuns({
    name,
    globalShape,
    sources,
    listRuns: () => [{ from: 0, to: 0, length: computeProduct(globalShape) }],
  });

function upMapping(
  { target, up }: AdaptedWeight,
  source: HuggingFaceTensor,
  { modelType, model }: { readonly modelType: GptTypeName; readonly model: GptModelConfiguration },
): WeightMapping {
  const { name, globalShape } = up;
  if (target === 'qkv') {
    const rowOf = qkvColumns(model.hiddenSize, model.numAttentionHeads);
    return reorderedRows(name, source, { globalShape, rowOf });
  }
  const same = sameLayout(name, source, globalShape);
  if (!rotatesNeighbours(modelType) || (target !== 'query' && target !== 'key')) return same;
  const { numGroups = model.numAttentionHeads } = gptBlock(model).attention;
  const numHeads = target === 'query' ? model.numAttentionHeads : numGroups;
  return pairedRows(same, { heads: [numHeads], headSize: computeHeadSize(model) });
}

/**
 * Returns the mappings for the LoRA factors of all E experts in a layer: A [E, r, I] and B [E, O, r], for
 * rank r, I inputs and O outputs.
 */
function expertMappings(
  { down, up }: AdaptedWeight,
  makeSources: (factor: 'a' | 'b', shape: readonly number[]) => readonly HuggingFaceTensor[],
): WeightMapping[] {
  const [numExperts] = down.globalShape as readonly number[];
  const outputs = up.globalShape.at(-2)!;
  const ups = makeSources('b', [numExperts!, outputs, up.globalShape.at(-1)!]);
  return [
    repeated(down.name, makeSources('a', down.globalShape), down.globalShape),
    ups.length === 1
      ? sameLayout(up.name, ups[0]!, up.globalShape)
      : sideBySide(up.name, ups, { numGroups: numExperts!, globalShape: up.globalShape }),
  ];
}

/**
 * Returns the names of a model's adapters in GGUF files: the name of the adapted matrix followed by `.lora_a`
 * [r, I] or `.lora_b` [O, r]. llama.cpp's conversion of PEFT files writes the same names. For queries and
 * keys, the rows of B are permuted in the same way as the rows of the adapted matrix.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS
 */
export function ggufLoraNames(
  modelType: GptTypeName,
  model: GptModelConfiguration,
  lora: LoraConfiguration,
): WeightNames {
  const mappings = adaptedWeights(model, lora).flatMap((adapted): WeightMapping[] => {
    const { layer, target, isOfExperts, down, up } = adapted;
    const makeSources = (factor: 'a' | 'b', shape: readonly number[]) =>
      matrices[target].map((matrix) => ({ name: `blk.${layer}.${matrix}.weight.lora_${factor}`, shape }));
    if (isOfExperts) return expertMappings(adapted, makeSources);
    const outputs = computeProduct(up.globalShape.slice(0, -1));
    const [source] = makeSources('b', [outputs, up.globalShape.at(-1)!]);
    return [
      sameLayout(down.name, makeSources('a', down.globalShape)[0]!),
      upMapping(adapted, source!, { modelType, model }),
    ];
  });
  return { mappings, prefix: '', isIgnored: () => false };
}
