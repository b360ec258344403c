import { checkOptions, choiceOption, type OptionChecks, required, textOption } from '@mtl/errors/options';
import type { WritableDtype } from '@mtl/formats';
import { type GgufDtype, ggufDtypes, writeGguf, writeGgufBert } from '@mtl/formats/gguf';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { noticesOption } from '../option-checks.js';
import { dtypeOfOrigin } from './from-checkpoint.js';
import {
  type CheckpointSource,
  checkpointSourceChecks,
  type HuggingFaceSource,
  huggingFaceSourceChecks,
} from './model-source.js';
import { lowersCase, type OpenedModel, openCheckpointModel, openHuggingFaceModel } from './open-model.js';

interface ToGguf {
  /** The path of a new file. */
  readonly path: string;
  /** The dtype of the stored matrices. Default: the dtype that the weights have in the source. */
  readonly dtype?: GgufDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

/** A GPT or a BERT in a checkpoint. */
type CheckpointToGgufOptions = ToGguf & CheckpointSource;

/** A GPT-2, a Llama, a derived model, or a BERT. */
type HuggingFaceToGgufOptions = ToGguf & HuggingFaceSource;

const ownChecks = {
  path: required(textOption),
  dtype: choiceOption(Object.keys(ggufDtypes)),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToGgufOptions> = { ...ownChecks, ...checkpointSourceChecks };
const checksOfHuggingFace: OptionChecks<HuggingFaceToGgufOptions> = {
  ...ownChecks,
  ...huggingFaceSourceChecks,
};

const dtypeNames: Readonly<Record<WritableDtype, GgufDtype>> = {
  F32: 'float32',
  BF16: 'bfloat16',
  F16: 'float16',
};

async function writeModel(
  { kind, model, tokenizerOptions, close, ...opened }: OpenedModel,
  { path, dtype: asked, onNotice }: ToGguf,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  const dtype = asked ?? dtypeNames[dtypeOfOrigin(opened.origin)];
  const { source, ...file } = { ...opened, path, dtype };
  try {
    const notices =
      kind === 'bert'
        ? await writeGgufBert({
            ...file,
            model: model as BertModelConfiguration,
            lowersCase: lowersCase(tokenizerOptions),
          })
        : await writeGguf({ ...file, model: model as GptModelConfiguration });
    for (const notice of notices) onNotice(notice);
  } finally {
    await close();
  }
  return { source, dtype };
}

/**
 * Writes the weights of a GPT or BERT checkpoint as a GGUF file with the tokenizer. The checkpoint may have
 * been saved with any layout. Low-rank adapters are merged into the weights. Needs as little memory as
 * `huggingFaceToGguf`.
 *
 * @returns the path of the checkpoint, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_GGUF_*
 */
export async function checkpointToGguf(
  options: CheckpointToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'checkpointToGguf', checks });
  return await writeModel(await openCheckpointModel(options), options);
}

/**
 * Converts a transformers directory with a GPT or a BERT to a GGUF file. If a directory of low-rank adapters
 * is given, they are merged into the weights. Weights are read and converted in blocks of rows, so memory
 * does not depend on the size of the model.
 *
 * @returns a description of the converted model, and the dtype of the stored matrices
 * @throws ConfigurationError MTL_OPTION, MTL_GGUF_ARCHITECTURE; CheckpointError MTL_HUGGING_FACE_*,
 *   MTL_LORA_DIRECTORY, MTL_GGUF_*
 */
export async function huggingFaceToGguf(
  options: HuggingFaceToGgufOptions,
): Promise<{ readonly source: string; readonly dtype: GgufDtype }> {
  checkOptions(options, { of: 'huggingFaceToGguf', checks: checksOfHuggingFace });
  const opened = await openHuggingFaceModel({ ...options, refused: 'MTL_GGUF_ARCHITECTURE' });
  return await writeModel(opened, options);
}
