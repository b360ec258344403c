import { basename, resolve } from 'node:path';
import { readAnySavedConfiguration } from '@mtl/configuration/internal';
import { ConfigurationError } from '@mtl/errors';
import { checkOptions, choiceOption, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { readHuggingFaceGpt, type WritableDtype } from '@mtl/formats';
import { type GgufDtype, ggufDtypes, writeGguf } from '@mtl/formats/gguf';
import { huggingFaceModelKind } from '@mtl/formats/internal';
import type { GptModelConfiguration } from '@mtl/models';
import { gptParameters } from '@mtl/models/internal';
import { createTokenizer } from '@mtl/tokenizers';
import { endTokensOf } from '../../parts/conversations/turn-tokens.js';
import { recipeOf } from '../../parts/models/recipe-of.js';
import { weightsWithAdapters } from '../adapters/merged-weights.js';
import { checkSavedWeights } from '../checkpoints/check-saved.js';
import { openSavedCheckpoint } from '../checkpoints/open-saved-checkpoint.js';
import { readThrough, savedWeights } from '../checkpoints/saved-weights.js';
import { iterationOption, noticesOption } from '../option-checks.js';
import { exportedTokenizerFiles, tokenizerOfHuggingFace } from '../tokenizers/hugging-face-tokenizers.js';
import { dtypeOfOrigin } from './from-checkpoint.js';

interface ToGguf {
  /** The path of a new file. */
  readonly path: string;
  /** Dtype of the stored matrices. Default: the dtype of the weights, as the model came. */
  readonly dtype?: GgufDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

interface CheckpointToGgufOptions extends ToGguf {
  /** A directory of checkpoints of a GPT. */
  readonly load: string;
  /** The iteration; default the newest whole checkpoint. */
  readonly checkpointStep?: number | undefined;
}

interface HuggingFaceToGgufOptions extends ToGguf {
  /** A directory of the transformers library with a GPT-2, a Llama or a model derived from it. */
  readonly loadHuggingFace: string;
  /** Adapters of the model, in the format of PEFT, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
}

const ownChecks = {
  path: required(textOption),
  dtype: choiceOption(Object.keys(ggufDtypes)),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToGgufOptions> = {
  ...ownChecks,
  load: required(textOption),
  checkpointStep: iterationOption,
};
const checksOfHuggingFace: OptionChecks<HuggingFaceToGgufOptions> = {
  ...ownChecks,
  loadHuggingFace: required(textOption),
  loadLora: textOption,
};

const dtypeNames: Readonly<Record<WritableDtype, GgufDtype>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

const nameOf = (directory: string): string => basename(resolve(directory));

function refuseKind(kind: string, place: string): void {
  if (kind === 'gpt') return;
  throw new ConfigurationError(
    'MTL_GGUF_ARCHITECTURE',
    `${place} holds a BERT, which is not written as GGUF`,
    {
      expected: 'a GPT',
      remedy: 'write it with --save-hf DIR',
    },
  );
}

/**
 * Writes the weights of a checkpoint of a GPT, saved in any layout, as a GGUF file with the tokenizer.
 * Low-rank adapters are merged into the weights. Tensors are read one by one.
 *
 * @returns the path of the checkpoint, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT, MTL_GGUF_ARCHITECTURE; CheckpointError
 *   MTL_CHECKPOINT_*, MTL_GGUF_*
 */
export async function checkpointToGguf(
  options: CheckpointToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'checkpointToGguf', checks });
  const { path, load, onNotice } = options;
  const { checkpoint, configuration, place } = await openSavedCheckpoint(options);
  if ('fineTuning' in configuration) {
    throw new ConfigurationError('MTL_FINE_TUNING_CONVERT', `${checkpoint.path} is of a fine-tuning`, {
      expected: 'a checkpoint of a pretraining',
      remedy: 'write it with mtl finetune: the same flags with --resume and --save-hf DIR',
    });
  }
  const saved = readAnySavedConfiguration(configuration, place);
  refuseKind(saved.kind, checkpoint.path);
  checkSavedWeights(checkpoint, saved);
  const { kind, tokenizer: tokenizerOptions, huggingFace: origin } = saved;
  const model = saved.model as GptModelConfiguration;
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const dtype = options.dtype ?? dtypeNames[dtypeOfOrigin(origin)];
  const notices = await writeGguf({
    ...({ path, model, dtype, origin } as const),
    tensors: recipeOf({ kind }).adapters.merged(saved, { model, tensors: savedWeights(checkpoint) }),
    tokenizerFiles: await exportedTokenizerFiles(tokenizerOptions, model),
    endTokens: tokenizer === undefined ? [] : endTokensOf(tokenizer),
    name: nameOf(load),
  });
  for (const notice of notices) onNotice(notice);
  return { source: checkpoint.path, dtype };
}

/**
 * Writes a directory of the transformers library as a GGUF file, with low-rank adapters merged into the
 * weights if a directory of adapters is given. Tensors are read one by one.
 *
 * @returns what was converted, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_GGUF_ARCHITECTURE; CheckpointError MTL_HUGGING_FACE_*,
 *   MTL_LORA_DIRECTORY, MTL_GGUF_*
 */
export async function huggingFaceToGguf(
  options: HuggingFaceToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'huggingFaceToGguf', checks: checksOfHuggingFace });
  const { path, loadHuggingFace, loadLora, onNotice } = options;
  refuseKind(await huggingFaceModelKind(loadHuggingFace), loadHuggingFace);
  const base = await readHuggingFaceGpt({ directory: loadHuggingFace });
  for (const notice of base.notices) onNotice(notice);
  const { configuration: model, origin } = base;
  const load: typeof base.load = (wanted) => base.load(wanted);
  const tensors =
    loadLora === undefined
      ? gptParameters(model).map(({ name, globalShape }) =>
          readThrough({ name, dtype: 'F32', globalShape }, load),
        )
      : await weightsWithAdapters({ model, load }, loadLora);
  const tokenizerOptions = tokenizerOfHuggingFace(base.tokenizerFiles);
  const tokenizer = tokenizerOptions && (await createTokenizer(tokenizerOptions));
  const dtype = options.dtype ?? dtypeNames[dtypeOfOrigin(origin)];
  const notices = await writeGguf({
    ...({ path, model, dtype, origin, tensors } as const),
    tokenizerFiles: { ...base.tokenizerFiles, ...(await exportedTokenizerFiles(tokenizerOptions, model)) },
    endTokens: base.endTokens.length > 0 || tokenizer === undefined ? base.endTokens : endTokensOf(tokenizer),
    name: nameOf(loadHuggingFace),
  });
  for (const notice of notices) onNotice(notice);
  return { source: loadLora === undefined ? loadHuggingFace : `${loadHuggingFace} with ${loadLora}`, dtype };
}
