import {
  checkOptions,
  choiceOption,
  listOption,
  type OptionChecks,
  required,
  textOption,
} from '@mtl/errors/options';
import { onnxDtypeNames } from '@mtl/formats/internal';
import type { OnnxDtype } from '@mtl/formats/onnx';
import type { BertModelConfiguration, GptModelConfiguration } from '@mtl/models';
import { noticesOption } from '../option-checks.js';
import {
  type CheckpointSource,
  checkpointSourceChecks,
  type HuggingFaceSource,
  huggingFaceSourceChecks,
} from './model-source.js';
import { lowersCase, type OpenedModel, openCheckpointModel, openHuggingFaceModel } from './open-model.js';

interface ToOnnx {
  /** A new or empty directory. */
  readonly directory: string;
  /**
   * The dtypes to write, each in its own file. By default, programs load the file of the first dtype.
   * Default: fp32.
   */
  readonly dtypes?: readonly OnnxDtype[] | undefined;
  readonly onNotice: (notice: string) => void;
}

/** A GPT or a BERT in a checkpoint. */
type CheckpointToOnnxOptions = ToOnnx & CheckpointSource;

/** A GPT-2, a Llama, a derived model, or a BERT, which may be fine-tuned. */
type HuggingFaceToOnnxOptions = ToOnnx & HuggingFaceSource;

const ownChecks = {
  directory: required(textOption),
  dtypes: listOption(choiceOption(onnxDtypeNames)),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToOnnxOptions> = { ...ownChecks, ...checkpointSourceChecks };
const checksOfHuggingFace: OptionChecks<HuggingFaceToOnnxOptions> = {
  ...ownChecks,
  ...huggingFaceSourceChecks,
};

async function writeModel(
  { kind, model, tokenizerOptions, close, source, ...opened }: OpenedModel,
  { directory, dtypes = ['fp32'] }: ToOnnx,
): Promise<{ readonly source: string; readonly dtypes: readonly OnnxDtype[] }> {
  const target = { ...opened, directory, dtypes };
  try {
    // most programs write no ONNX; a static import would make them start 80 ms later
    const { writeOnnxBert, writeOnnxGpt } = await import('@mtl/formats/onnx');
    if (kind === 'bert') {
      const bert = model as BertModelConfiguration;
      await writeOnnxBert({ ...target, model: bert, lowersCase: lowersCase(tokenizerOptions) });
    } else await writeOnnxGpt({ ...target, model: model as GptModelConfiguration });
  } finally {
    await close();
  }
  return { source, dtypes };
}

/**
 * Writes the weights of a GPT or BERT checkpoint as a directory for transformers.js. The checkpoint may have
 * been saved with any layout. Low-rank adapters are merged into the weights. Needs as much memory as
 * `huggingFaceToOnnx`.
 *
 * @returns the path of the checkpoint, and the written dtypes
 * @throws ConfigurationError MTL_OPTION, MTL_FINE_TUNING_CONVERT; CheckpointError MTL_CHECKPOINT_*,
 *   MTL_ONNX_*
 */
export async function checkpointToOnnx(
  options: CheckpointToOnnxOptions,
): Promise<{ readonly source: string; readonly dtypes: readonly OnnxDtype[] }> {
  checkOptions(options, { of: 'checkpointToOnnx', checks });
  return await writeModel(await openCheckpointModel(options), options);
}

/**
 * Converts a transformers directory with a GPT or a BERT to a directory for transformers.js. If a directory
 * of low-rank adapters is given, they are merged into the weights. Weights are read in blocks of rows. The
 * dtype q8 needs a byte of memory for each weight of the largest matrix.
 *
 * @returns a description of the source, and the written dtypes
 * @throws ConfigurationError MTL_OPTION, MTL_ONNX_ARCHITECTURE; CheckpointError MTL_HUGGING_FACE_*,
 *   MTL_LORA_DIRECTORY, MTL_ONNX_*
 */
export async function huggingFaceToOnnx(
  options: HuggingFaceToOnnxOptions,
): Promise<{ readonly source: string; readonly dtypes: readonly OnnxDtype[] }> {
  checkOptions(options, { of: 'huggingFaceToOnnx', checks: checksOfHuggingFace });
  const opened = await openHuggingFaceModel({
    ...options,
    refused: 'MTL_ONNX_ARCHITECTURE',
    readsTasks: true,
  });
  return await writeModel(opened, options);
}
