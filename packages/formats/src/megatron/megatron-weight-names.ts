import type { LogicalTensor } from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { type BertModelConfiguration, type GptModelConfiguration, modelParameters } from '@mtl/models';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { paddedTable, sameLayout, type WeightMapping } from '../huggingface/weight-mapping.js';
import type { MegatronModelKind } from './megatron-fields.js';

/**
 * Returns the mappings of Megatron-LM: names (`nameOfMegatron`) and the order of values equal ours. The
 * outputs of a linear layer are a single dimension in Megatron-LM, even if our tensor has several (heads,
 * halves of SwiGLU).
 *
 * @param options.vocabularySize rows of the vocabulary in the checkpoint
 * @param options.normsLessOne whether layer norm weights are stored minus 1 (`apply_layernorm_1p`). Default:
 *   false
 */
export function megatronWeightNames(options: {
  readonly kind: MegatronModelKind;
  readonly model: GptModelConfiguration | BertModelConfiguration;
  readonly vocabularySize: number;
  readonly normsLessOne?: boolean;
}): WeightNames {
  const { model, vocabularySize, normsLessOne = false } = options;
  const isTied = !('tieEmbeddings' in model) || model.tieEmbeddings;
  return {
    mappings: modelParameters(options).map((parameter) => {
      const mapping = describeMapping(parameter, vocabularySize);
      return normsLessOne && isNormWeight(parameter.name) ? storedLessOne(mapping) : mapping;
    }),
    prefix: '',
    isIgnored: (name) => isTied && name === 'output_layer.weight',
    ...(isTied && { copies: { 'output_layer.weight': 'embedding.word_embeddings.weight' } }),
  };
}

const isNormWeight = (name: string): boolean => /layer_?norm\.weight$/.test(name);

/** Changes a mapping so that the stored weights are the weights minus 1. */
const storedLessOne = ({ listRuns: _, ...mapping }: WeightMapping): WeightMapping => ({
  ...mapping,
  toLogical: (sources, allocate) =>
    mapping.toLogical(
      sources.map((values) => values.map((value) => value + 1)),
      allocate,
    ),
  toSources: (logical, allocate) =>
    mapping.toSources(logical, allocate).map((values) => values.map((value) => value - 1)),
});

function describeMapping(
  { name, globalShape }: Pick<LogicalTensor, 'name' | 'globalShape'>,
  vocabularySize: number,
): WeightMapping {
  if (/^(embedding\.word_embeddings|output_layer)\.weight$/.test(name)) {
    const [paddedRows, width] = globalShape as [number, number];
    return paddedTable(name, { name, shape: [vocabularySize, width] }, paddedRows);
  }
  if (name === 'output_layer.bias')
    return paddedTable(name, { name, shape: [vocabularySize] }, globalShape[0]!);
  const mapping = sameLayout(name, { name, shape: foldedRows(name, globalShape) }, globalShape);
  return isBuffer(name) ? { ...mapping, dtype: 'F32' } : mapping;
}

/**
 * Returns true if a tensor is a buffer. Buffers are always float32. No optimizer updates them, so they have
 * no optimizer state.
 */
export const isBuffer = (name: string): boolean => name.endsWith('.router.expert_bias');

/**
 * Returns the shape in Megatron-LM, where all output dimensions of a linear layer are folded into a single
 * dimension.
 */
function foldedRows(name: string, shape: readonly number[]): readonly number[] {
  if (/\.mlp\.experts\.linear_fc1\./.test(name)) {
    const [numExperts, ...rest] = shape;
    return [numExperts!, ...foldedRows(name.replace('.experts.', '.'), rest)];
  }
  if (!/\.(linear_qkv|linear_fc1)\.(weight|bias)$/.test(name)) return shape;
  const numInputs = name.endsWith('.weight') ? 1 : 0;
  return [countElements(shape.slice(0, shape.length - numInputs)), ...shape.slice(shape.length - numInputs)];
}
