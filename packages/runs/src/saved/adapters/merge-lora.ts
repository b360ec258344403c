import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { readHuggingFaceGpt, type WritableDtype, writeHuggingFaceGpt } from '@mtl/formats';
import { dtypeOfOrigin } from '../conversion/from-checkpoint.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { noticesOption, storedDtypeOption } from '../option-checks.js';
import { weightsWithAdapters } from './merged-weights.js';

interface MergeLoraOptions {
  /**
   * A directory in the format of the `transformers` library, with a GPT-2, a Llama or a model derived from
   * Llama.
   */
  readonly loadHuggingFace: string;
  /** A directory with the model's adapters, in PEFT's format. */
  readonly loadLora: string;
  /** The directory to write, which must be new or empty. */
  readonly directory: string;
  /** The dtype of the stored weights. Default: the dtype in the model's directory. */
  readonly dtype?: WritableDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

const checks: OptionChecks<MergeLoraOptions> = {
  loadHuggingFace: required(textOption),
  loadLora: required(textOption),
  directory: required(textOption),
  dtype: storedDtypeOption,
  onNotice: required(noticesOption),
};

/**
 * Writes a model and its tokenizer, with the low-rank adapters merged into the weights. Only one tensor and
 * its adapters are in memory at a time.
 *
 * @returns the dtype of the stored weights
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_HUGGING_FACE_*, MTL_LORA_DIRECTORY,
 *   MTL_SAFETENSORS_*
 */
export async function mergeLora(options: MergeLoraOptions): Promise<WritableDtype> {
  checkOptions(options, { of: 'mergeLora', checks });
  const { directory, onNotice } = options;
  const asked = { loadHuggingFace: options.loadHuggingFace, loadLora: options.loadLora };
  const { loadHuggingFace, loadLora } = await fetchFromHub(asked, { onMessage: onNotice });
  const base = await readHuggingFaceGpt({ directory: loadHuggingFace });
  for (const notice of base.notices) onNotice(notice);
  const model = base.configuration;
  const tensors = await weightsWithAdapters({ model, load: (wanted) => base.load(wanted) }, loadLora);
  const dtype = options.dtype ?? dtypeOfOrigin(base.origin);
  await writeHuggingFaceGpt({
    directory,
    model,
    dtype,
    endTokens: base.endTokens,
    origin: base.origin,
    tensors,
    tokenizerFiles: base.tokenizerFiles,
  });
  return dtype;
}
