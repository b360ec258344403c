import { CheckpointError } from '@mtl/errors';
import { gptBlock } from '../gpt/gpt-block.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { encodeGpt2Configuration } from './gpt2-configuration.js';
import { gpt2WeightMappings } from './gpt2-weight-mappings.js';
import { gpt2WeightNames } from './gpt2-weight-names.js';
import {
  dtypeNames,
  type SaveHuggingFaceOptions,
  writeHuggingFaceDirectory,
} from './write-huggingface-directory.js';

export interface WriteHuggingFaceGpt2Options extends SaveHuggingFaceOptions {
  readonly model: GptModelConfiguration;
  /** Tokens that end a text; the first also begins one, as in GPT-2. */
  readonly endTokens?: readonly number[];
}

/**
 * Saves a GPT as transformers' GPT2LMHeadModel: `from_pretrained` loads it. The vocabulary's padding is
 * dropped. It is written next to the target and renamed, so that a failed save leaves nothing behind.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for blocks that transformers' GPT-2 does not have,
 *   MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_SHAPE, MTL_HUGGING_FACE_IO,
 *   MTL_CHECKPOINT_*
 * @throws UsageError MTL_HUGGING_FACE_TENSOR when a tensor is missing, unknown or only a slice without a
 *   group
 */
export async function writeHuggingFaceGpt2(options: WriteHuggingFaceGpt2Options): Promise<void> {
  const { model, dtype = 'F32', endTokens = [] } = options;
  const [endToken] = endTokens;
  checkGpt2Blocks(model);
  await writeHuggingFaceDirectory(options, {
    names: gpt2WeightNames(gpt2WeightMappings(model)),
    fileName: (name) => (name === 'lm_head.weight' ? name : `transformer.${name}`),
    jsonFiles: {
      'config.json': encodeGpt2Configuration(model, { dtype: dtypeNames[dtype], endTokens }),
      'generation_config.json': {
        ...(endToken === undefined ? {} : { bos_token_id: endToken }),
        ...(endToken === undefined ? {} : { eos_token_id: endTokens.length === 1 ? endToken : endTokens }),
      },
    },
  });
}

/** Refuses what names and shapes of weights do not show. */
function checkGpt2Blocks(model: GptModelConfiguration): void {
  const { attention, feedForward } = gptBlock(model);
  const what = attention.windowSize === undefined ? feedForward.kind : 'a window of attention';
  if (what === 'gelu') return;
  throw new CheckpointError('MTL_HUGGING_FACE_CONFIG', `a GPT-2 of transformers does not have ${what}`, {
    expected: "a GPT with GPT-2's blocks",
    exitCode: 2,
  });
}
