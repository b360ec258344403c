import type { LogicalTensor } from '@mtl/checkpoint';
import { sizeOf } from '@mtl/kernels';
import type { BertModelConfiguration } from '../bert/bert-model-configuration.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import type { WeightNames } from '../huggingface/mapped-weights.js';
import { paddedTable, paddedVector, sameLayout, type WeightMapping } from '../huggingface/weight-mapping.js';
import { modelParameters } from '../model-parameters.js';
import type { MegatronModelKind } from './megatron-fields.js';

/**
 * The name map of Megatron-LM: names are ours (`nameOfMegatron`), and so is the order of values. Rows have
 * one dimension there, also those of heads and of the halves of SwiGLU.
 *
 * @param options.vocabularySize rows of the vocabulary in the checkpoint
 */
export function megatronWeightNames(options: {
  readonly kind: MegatronModelKind;
  readonly model: GptModelConfiguration | BertModelConfiguration;
  readonly vocabularySize: number;
}): WeightNames {
  const { model, vocabularySize } = options;
  const isTied = !('tieEmbeddings' in model) || model.tieEmbeddings;
  return {
    mappings: modelParameters(options).map((parameter) => mappingOf(parameter, vocabularySize)),
    prefix: '',
    isIgnored: (name) => isTied && name === 'output_layer.weight',
    ...(isTied && { copies: { 'output_layer.weight': 'embedding.word_embeddings.weight' } }),
  };
}

function mappingOf(
  { name, globalShape }: Pick<LogicalTensor, 'name' | 'globalShape'>,
  vocabularySize: number,
): WeightMapping {
  if (/^(embedding\.word_embeddings|output_layer)\.weight$/.test(name)) {
    const [paddedRows, width] = globalShape as [number, number];
    return paddedTable(name, { name, shape: [vocabularySize, width] }, paddedRows);
  }
  if (name === 'output_layer.bias')
    return paddedVector(name, { name, shape: [vocabularySize] }, globalShape[0]!);
  return sameLayout(name, { name, shape: foldedRows(name, globalShape) }, globalShape);
}

/** The shape in Megatron-LM: all dimensions of the outputs of a linear layer as one. */
function foldedRows(name: string, shape: readonly number[]): readonly number[] {
  if (!/\.(linear_qkv|linear_fc1)\.(weight|bias)$/.test(name)) return shape;
  const numInputs = name.endsWith('.weight') ? 1 : 0;
  return [sizeOf(shape.slice(0, shape.length - numInputs)), ...shape.slice(shape.length - numInputs)];
}
