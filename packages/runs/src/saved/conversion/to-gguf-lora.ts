import { basename, resolve } from 'node:path';
import { checkOptions, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { isAdapter, readHuggingFaceGpt, readLoraDirectory, specifyLora } from '@mtl/formats';
import { writeGgufLora } from '@mtl/formats/gguf';
import { gptParameters } from '@mtl/models';
import { openSavedAdapters } from '../adapters/checkpoint-to-lora.js';
import { readThrough, savedWeights } from '../checkpoints/saved-weights.js';
import { fetchFromHub } from '../hub/fetch-from-hub.js';
import { noticesOption } from '../option-checks.js';
import {
  type CheckpointSource,
  checkpointSourceChecks,
  type HuggingFaceSource,
  huggingFaceSourceChecks,
} from './model-source.js';

interface ToGgufLora {
  /** The path of a new file. */
  readonly path: string;
  readonly onNotice: (notice: string) => void;
}

/** A checkpoint of a run with --lora-rank. */
type CheckpointToGgufLoraOptions = ToGgufLora & CheckpointSource;

/** Adapters, and the model to which they belong. */
type LoraToGgufOptions = ToGgufLora & HuggingFaceSource & { readonly loadLora: string };

const ownChecks = { path: required(textOption), onNotice: required(noticesOption) };
const checks: OptionChecks<CheckpointToGgufLoraOptions> = { ...ownChecks, ...checkpointSourceChecks };
const checksOfLora: OptionChecks<LoraToGgufOptions> = {
  ...ownChecks,
  ...huggingFaceSourceChecks,
  loadLora: required(textOption),
};

const nameModel = (directory: string): string => basename(resolve(directory));

/**
 * Writes the low-rank adapters of a checkpoint as a GGUF file for llama.cpp, which applies them to the
 * GGUF file of their model. The checkpoint may have been saved with any layout.
 *
 * @returns the path of the checkpoint
 * @throws ConfigurationError MTL_OPTION; CheckpointError MTL_CHECKPOINT_LORA for a checkpoint without
 *   adapters, MTL_CHECKPOINT_*, MTL_GGUF_*
 */
export async function checkpointToGgufLora(options: CheckpointToGgufLoraOptions): Promise<string> {
  checkOptions(options, { of: 'checkpointToGgufLora', checks });
  const { path, load } = options;
  const { checkpoint, saved, lora } = await openSavedAdapters(options);
  const { model, huggingFace: origin } = saved;
  await writeGgufLora({
    path,
    model,
    lora,
    tensors: savedWeights(checkpoint),
    origin,
    name: nameModel(load),
  });
  return checkpoint.path;
}

/**
 * Writes low-rank adapters in PEFT's format as a GGUF file for llama.cpp, which applies them to the GGUF file
 * of their model.
 *
 * @returns a description of the converted model
 * @throws ConfigurationError MTL_OPTION, MTL_LORA_TARGETS; CheckpointError MTL_HUGGING_FACE_*,
 *   MTL_LORA_DIRECTORY, MTL_SAFETENSORS_*, MTL_GGUF_*
 */
export async function loraToGguf(options: LoraToGgufOptions): Promise<string> {
  checkOptions(options, { of: 'loraToGguf', checks: checksOfLora });
  const { path, onNotice } = options;
  const asked = { loadHuggingFace: options.loadHuggingFace, loadLora: options.loadLora };
  const { loadHuggingFace, loadLora } = await fetchFromHub(asked, { onMessage: onNotice });
  const { configuration: model, origin, notices } = await readHuggingFaceGpt({ directory: loadHuggingFace });
  for (const notice of notices) onNotice(notice);
  const adapters = await readLoraDirectory({ directory: loadLora, model });
  const { configuration: lora } = adapters;
  const tensors = gptParameters(model, { lora: specifyLora(lora, model) })
    .filter(({ name }) => isAdapter(name))
    .map(({ name, globalShape }) =>
      readThrough({ name, dtype: 'F32', globalShape }, (wanted) => adapters.load(wanted)),
    );
  const name = nameModel(loadLora === asked.loadLora ? loadLora : asked.loadLora.split('@')[0]!);
  await writeGgufLora({ path, model, lora, tensors, origin, name });
  return asked.loadLora;
}
