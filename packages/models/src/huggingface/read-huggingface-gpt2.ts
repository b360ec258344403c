import { join } from 'node:path';
import type { LogicalTensor } from '@mtl/checkpoint';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { checkHuggingFaceWeights } from './check-huggingface-weights.js';
import { parseEndTokens, parseGpt2Configuration } from './gpt2-configuration.js';
import { gpt2WeightMappings } from './gpt2-weight-mappings.js';
import { gpt2Prefix, gpt2WeightNames } from './gpt2-weight-names.js';
import { JsonFields } from './json-fields.js';
import { loadHuggingFaceWeights, openHuggingFaceDirectory } from './open-huggingface-directory.js';

export interface HuggingFaceGpt2 {
  readonly directory: string;
  readonly configuration: GptModelConfiguration;
  /**
   * The dtype that config.json names (`float32`, `bfloat16` ...), if it does; the weights carry their own.
   */
  readonly dtype: string | undefined;
  /** Tokens that end a text, from generation_config.json or else config.json. */
  readonly endTokens: readonly number[];
  /** generation_config.json as it is, if there: temperature, top_k, top_p and the like. */
  readonly generationDefaults: Readonly<Record<string, unknown>> | undefined;
  /** The tokenizer's files that are there: name to path, as `writeHuggingFaceGpt2` takes them. */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /** What a user should hear. */
  readonly notices: readonly string[];
  /**
   * Fills tensors from the weights: any of the model's, any slices. For training these are the master weights
   * (`weightTensors` of @mtl/trainer; then `refreshModel`), for inference
   * `parameterTensors(stage.parameters)`.
   *
   * @throws CheckpointError MTL_HUGGING_FACE_WEIGHTS, before anything is written, when names, shapes or
   *   dtypes do not fit; MTL_HUGGING_FACE_SHAPE when the model was built from another configuration;
   *   MTL_SAFETENSORS_*
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Reads a GPT-2 directory of the transformers library: config.json, weights in safetensors (one file or
 * shards with their index, names with or without `transformer.`), generation_config.json.
 *
 * @param options.makeVocabularySizeDivisibleBy padding of the embedding in our model; default 128, Megatron's
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing, broken or asks for what GPT-2
 *   here does not compute; MTL_HUGGING_FACE_WEIGHTS when the weights have other names, shapes or dtypes than
 *   config.json makes; MTL_SAFETENSORS_*
 */
export async function readHuggingFaceGpt2(options: {
  readonly directory: string;
  readonly makeVocabularySizeDivisibleBy?: number;
}): Promise<HuggingFaceGpt2> {
  const { directory, makeVocabularySizeDivisibleBy = 128 } = options;
  const { fields, dtype, tokenizerFiles } = await openHuggingFaceDirectory(directory);
  const { configuration, notices } = parseGpt2Configuration(fields, { makeVocabularySizeDivisibleBy });
  const generation = await JsonFields.read(join(directory, 'generation_config.json'));
  const { vocabularySize } = configuration;
  const fromGeneration = generation && parseEndTokens(generation, vocabularySize);
  const endTokens = fromGeneration ?? parseEndTokens(fields, vocabularySize) ?? [];
  const names = () => gpt2WeightNames(gpt2WeightMappings(configuration));
  await checkHuggingFaceWeights({
    ...configuration,
    directory,
    embedding: 'wte.weight',
    naming: { prefix: gpt2Prefix },
    names,
  });
  return {
    directory,
    configuration,
    dtype,
    endTokens,
    generationDefaults: generation?.values,
    tokenizerFiles,
    notices,
    load: (tensors) => loadHuggingFaceWeights({ directory, tensors, names: names() }),
  };
}
