import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { LogicalTensor } from '@mtl/checkpoint';
import type { GptModelConfiguration } from '@mtl/models';
import { checkHuggingFaceWeights } from './check-weight-sizes.js';
import { parseEndTokens, parseGptConfiguration } from './gpt-configuration.js';
import { gptEmbedding, gptWeightNames } from './gpt-weight-names.js';
import type { HuggingFaceOrigin } from './huggingface-origin.js';
import { JsonFields } from './json-fields.js';
import { type GptTypeName, modelTypes } from './model-types.js';
import {
  loadHuggingFaceWeights,
  type OpenedWeights,
  openHuggingFaceDirectory,
  openHuggingFaceWeights,
} from './open-huggingface-directory.js';

/**
 * A Hugging Face directory that contains a GPT-2, a Llama or a model derived from Llama, opened for reading.
 */
export interface HuggingFaceGpt {
  readonly directory: string;
  /** The `model_type` in transformers: `gpt2`, `llama` ... */
  readonly modelType: GptTypeName;
  readonly configuration: GptModelConfiguration;
  /**
   * The dtype that config.json names, such as `float32` or `bfloat16`, if any. The weights may be stored in a
   * different dtype.
   */
  readonly dtype: string | undefined;
  /**
   * The ids of the tokens that end a text, from generation_config.json, or from config.json if the former
   * does not state them.
   */
  readonly endTokens: readonly number[];
  /**
   * The fields of generation_config.json, such as temperature, top_k and top_p. Undefined if the file does
   * not exist.
   */
  readonly generationDefaults: Readonly<Record<string, unknown>> | undefined;
  /** The original config.json and generation_config.json fields, for `writeHuggingFaceGpt`. */
  readonly origin: HuggingFaceOrigin;
  /**
   * The paths of the tokenizer's files in the directory, by file name, as `writeHuggingFaceGpt` takes them.
   */
  readonly tokenizerFiles: Readonly<Record<string, string>>;
  /** Notes for the user. */
  readonly notices: readonly string[];
  /**
   * Fills the given tensors, or slices of tensors, from the weights. For training, pass the master weights
   * (`weightTensors` of @mtl/trainer), then call `refreshModel`. For inference, pass
   * `parameterTensors(stage.parameters)`.
   *
   * @throws CheckpointError before anything is written: MTL_HUGGING_FACE_WEIGHTS when names, shapes or dtypes
   *   of the weights are wrong; MTL_HUGGING_FACE_SHAPE when the model was built from a different
   *   configuration; MTL_SAFETENSORS_*
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
  /**
   * Opens the weights, so that tensors can be loaded one after another. The caller closes them.
   *
   * @throws the errors of `load`
   */
  open(): Promise<OpenedWeights>;
}

/**
 * Reads a transformers directory that contains a GPT-2, Llama (SmolLM among them), Mistral, Qwen2, Qwen3,
 * Mixtral, Qwen2-MoE, Qwen3-MoE or OLMoE: config.json, generation_config.json, and weights in safetensors.
 * The weights are a single file, or shards with an index. Names may have the prefix `transformer.` or
 * `model.`, and experts may be separate or fused.
 *
 * @param options.makeVocabularySizeDivisibleBy pads our embedding to a multiple of this number of rows;
 *   default 128, as in Megatron-LM
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG when config.json is missing, broken or needs an unsupported
 *   feature; MTL_HUGGING_FACE_WEIGHTS when names, shapes or dtypes of the weights do not match config.json;
 *   MTL_SAFETENSORS_*
 */
export async function readHuggingFaceGpt(options: {
  readonly directory: string;
  readonly makeVocabularySizeDivisibleBy?: number;
}): Promise<HuggingFaceGpt> {
  const { directory, makeVocabularySizeDivisibleBy = 128 } = options;
  const { fields, dtype, tokenizerFiles } = await openHuggingFaceDirectory(directory);
  const described = parseGptConfiguration(fields, { makeVocabularySizeDivisibleBy });
  const { modelType, configuration, notices } = described;
  const generation = await JsonFields.read(join(directory, 'generation_config.json'));
  const { vocabularySize } = configuration;
  const fromGeneration = generation && parseEndTokens(generation, vocabularySize);
  const endTokens = fromGeneration ?? parseEndTokens(fields, vocabularySize) ?? [];
  const names = (tensors: Iterable<string>) => gptWeightNames(modelType, configuration, tensors);
  await checkHuggingFaceWeights({
    ...configuration,
    directory,
    ...gptEmbedding(modelType),
    stated: { fields, table: modelTypes[modelType].fields },
    names,
  });
  return {
    directory,
    modelType,
    configuration,
    dtype,
    endTokens,
    generationDefaults: generation?.values,
    origin: { config: fields.values, generation: generation?.values },
    tokenizerFiles,
    notices: [...notices, ...unreadIndex(directory), ...unreadTokenizer(directory, tokenizerFiles)],
    load: (tensors) => loadHuggingFaceWeights({ directory, tensors, names }),
    open: () => openHuggingFaceWeights({ directory, names }),
  };
}

/**
 * Returns a notice if a directory contains both a single weight file and shards. As in transformers, the
 * shards are then ignored.
 */
function unreadIndex(directory: string): readonly string[] {
  const [single, index] = ['model.safetensors', 'model.safetensors.index.json'] as const;
  const hasBoth = [single, index].every((name) => existsSync(join(directory, name)));
  return hasBoth ? [`${directory}: ${single} is read, and the shards of ${index} are not`] : [];
}

/** Returns a notice if the tokenizer's files are in an unsupported format. */
function unreadTokenizer(directory: string, files: Readonly<Record<string, string>>): readonly string[] {
  const has = (name: string): boolean => files[name] !== undefined;
  if (has('tokenizer.json') || (has('vocab.json') && has('merges.txt'))) return [];
  const unread = [
    'tokenizer.model',
    'tokenizer.model.v3',
    'spiece.model',
    'sentencepiece.bpe.model',
    'tekken.json',
  ].find(has);
  if (unread === undefined) return [];
  return [
    `${directory}: ${unread} is not read; AutoTokenizer of transformers writes it as tokenizer.json (save_pretrained)`,
  ];
}
