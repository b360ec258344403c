import type { WeightNames } from '../huggingface/mapped-weights.js';
import { paddedTable, paddedVector, sameLayout, type WeightMapping } from '../huggingface/weight-mapping.js';

interface NamedShape {
  readonly name: string;
  readonly globalShape: readonly number[];
}

/**
 * The name map of Megatron-LM: names are ours (`nameOfMegatron`), and so is the order of values. Rows have
 * one dimension there, also those of heads and of the halves of SwiGLU, and the vocabulary is not padded.
 *
 * @param parameters of the model
 */
export function megatronWeightNames(
  parameters: readonly NamedShape[],
  { vocabularySize, isTied }: { readonly vocabularySize: number; readonly isTied: boolean },
): WeightNames {
  return {
    mappings: parameters.map((parameter) => mappingOf(parameter, vocabularySize)),
    prefix: '',
    isIgnored: (name) => isTied && name === 'output_layer.weight',
    ...(isTied && { copies: { 'output_layer.weight': 'embedding.word_embeddings.weight' } }),
  };
}

function mappingOf({ name, globalShape }: NamedShape, vocabularySize: number): WeightMapping {
  if (/^(embedding\.word_embeddings|output_layer)\.weight$/.test(name)) {
    const [paddedRows, width] = globalShape as [number, number];
    return paddedTable(name, { name, shape: [vocabularySize, width] }, paddedRows);
  }
  if (name === 'output_layer.bias')
    return paddedVector(name, { name, shape: [vocabularySize] }, globalShape[0]!);
  return sameLayout(name, { name, shape: foldedRows(name, globalShape) }, globalShape);
}

/** The shape in Megatron-LM: all dimensions of the outputs of a linear layer as one. */
export function foldedRows(name: string, shape: readonly number[]): readonly number[] {
  if (!/\.(linear_qkv|linear_fc1)\.(weight|bias)$/.test(name)) return shape;
  const numInputs = name.endsWith('.weight') ? 1 : 0;
  const rows = shape.slice(0, shape.length - numInputs).reduce((product, size) => product * size, 1);
  return [rows, ...shape.slice(shape.length - numInputs)];
}
