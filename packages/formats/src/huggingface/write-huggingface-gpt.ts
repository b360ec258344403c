import { CheckpointError } from '@mtl/errors';
import type { GptModelConfiguration } from '@mtl/models';
import { inOrder, listSpellings } from './config-fields.js';
import { encodeGptConfiguration } from './gpt-configuration.js';
import { gptWeightNames } from './gpt-weight-names.js';
import { addedEnds, endsTexts, type HuggingFaceOrigin, keptFields } from './huggingface-origin.js';
import { type GptTypeName, modelTypes } from './model-types.js';
import { chooseGptType, unstatedProperties } from './statable-models.js';
import {
  dtypeNames,
  type SaveHuggingFaceOptions,
  writeHuggingFaceDirectory,
} from './write-huggingface-directory.js';

/** The GPT-2, Llama or model derived from Llama to write, and options for the directory. */
export interface WriteHuggingFaceGptOptions extends SaveHuggingFaceOptions {
  readonly model: GptModelConfiguration;
  /** The ids of the tokens that end a text. For a GPT-2, the first id also begins a text. */
  readonly endTokens?: readonly number[];
  /**
   * The JSON files of the model's original directory (see `readHuggingFaceGpt`). Their model type, and the
   * fields that do not describe the architecture, are written again.
   */
  readonly origin?: HuggingFaceOrigin | undefined;
}

/**
 * Saves a GPT for transformers' `from_pretrained`. The class depends on its blocks: GPT2LMHeadModel,
 * LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM or Qwen3ForCausalLM; with experts
 * MixtralForCausalLM, Qwen3MoeForCausalLM, Qwen2MoeForCausalLM or OlmoeForCausalLM. Each expert has separate
 * tensors. The vocabulary's padding is dropped. The directory is written under a temporary name and renamed,
 * so a failed save leaves no files.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for blocks that no class supports, MTL_HUGGING_FACE_EXISTS,
 *   MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO, MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown, or only a slice although
 *   there is no group
 */
export async function writeHuggingFaceGpt(options: WriteHuggingFaceGptOptions): Promise<void> {
  const { model, dtype = 'F32' } = options;
  const modelType = chooseType(options);
  const origin = options.origin?.config.model_type === modelType ? options.origin : undefined;
  const names = gptWeightNames(modelType, model);
  const { inConfig, inGeneration } = tokenFields(modelType, { ...options, origin });
  const config = encodeGptConfiguration(model, { modelType, dtype: dtypeNames[dtype], tokens: inConfig });
  const spellings = listSpellings(modelTypes[modelType].fields);
  const kept = Object.entries(keptFields(origin?.config ?? {})).filter(([name]) => !spellings.has(name));
  await writeHuggingFaceDirectory(options, {
    names,
    fileName: (name) => (name === 'lm_head.weight' ? name : `${names.prefix}${name}`),
    jsonFiles: {
      'config.json': inOrder({ use_cache: true, ...Object.fromEntries(kept), ...config }),
      'generation_config.json': { ...keptFields(origin?.generation ?? {}), ...inGeneration },
    },
  });
}

/**
 * Returns the config.json fields for the tokens that begin and end texts. Returns no fields if the original
 * directory's tokens are still correct.
 */
export function tokenFields(
  modelType: GptTypeName,
  { origin, endTokens = [] }: Pick<WriteHuggingFaceGptOptions, 'origin' | 'endTokens'>,
) {
  if (origin !== undefined && endsTexts(origin, endTokens)) {
    return { inConfig: {}, inGeneration: addedEnds(origin, endTokens) };
  }
  const [endToken = null] = endTokens;
  const ends = endTokens.length > 1 ? endTokens : endToken;
  const begins = { bos_token_id: modelType === 'gpt2' ? endToken : null };
  return {
    inConfig: { ...begins, eos_token_id: modelType === 'gpt2' ? endToken : ends },
    inGeneration: Object.fromEntries(
      Object.entries({ ...begins, eos_token_id: ends }).filter(([, token]) => token !== null),
    ),
  };
}

function chooseType({ model, origin }: WriteHuggingFaceGptOptions): GptTypeName {
  const type = chooseGptType(model, origin?.config.model_type as string | undefined);
  if (type !== undefined) return type;
  const { nearest, properties } = unstatedProperties(model);
  throw new CheckpointError(
    'MTL_HUGGING_FACE_CONFIG',
    `no model type of transformers that is written here has these blocks: ${nearest.name} lacks ${properties.join(', ')}`,
    {
      expected:
        "a GPT with a GPT-2's, Llama's, Mistral's, Qwen2's, Qwen3's, Mixtral's, Qwen3-MoE's, Qwen2-MoE's or OLMoE's blocks",
      exitCode: 2,
    },
  );
}
