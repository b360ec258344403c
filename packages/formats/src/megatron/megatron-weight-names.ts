import type { LogicalTensor } from '@mtl/checkpoint';
import { countElements } from '@mtl/kernels';
import { type BertModelConfiguration, type GptModelConfiguration, modelParameters } from '@mtl/models';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { paddedTable, sameLayout, type WeightMapping } from '../huggingface/weight-mapping.js';
import type { MegatronModelKind } from './megatron-fields.js';

/**
 * Returns Megatron-LM's mappings: names (see `nameOfMegatron`) and the order of values equal ours. The
 * outputs of a linear layer are a single dimension in Megatron-LM, even if our tensor has several (such as
 * heads, or halves of SwiGLU).
 *
 * @param options.vocabularySize the number of vocabulary rows in the checkpoint
 * @param options.normsLessOne true if layer norm weights are stored minus 1 (`apply_layernorm_1p`). Default:
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

/** Changes a mapping so that the stored values are the weights minus 1. */
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
 * Returns true if the tensor is a buffer. Buffers are always float32, and have no optimizer state, because no
 * optimizer updates them.
 */
export const isBuffer = (name: string): boolean => name.endsWith('.router.expert_bias');

/**
 * Returns a tensor's shape in Megatron-LM, where all output dimensions of a linear layer are folded into one.
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
