import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LogicalTensor, writeSafetensorsFile } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { GptModelConfiguration } from '@mtl/models';
import { mappedWeightSources } from '../huggingface/mapped-weight-sources.js';
import { publishDirectory } from '../huggingface/publish-directory.js';
import { chooseGptType, unstatedProperties } from '../huggingface/statable-models.js';
import {
  isAdapter,
  type LoraConfiguration,
  loraConfigName,
  loraWeightsName,
  versionOfParameters,
} from './lora-configuration.js';
import { loraModules, specifyLora } from './lora-modules.js';
import { loraWeightNames } from './lora-weight-names.js';

/** The adapters to write, and options for the directory. */
export interface WriteLoraDirectoryOptions {
  /** The output directory, which must be missing or empty. It is written atomically, with one rename. */
  readonly directory: string;
  readonly model: GptModelConfiguration;
  readonly lora: LoraConfiguration;
  /** The model's tensors, each complete rather than a slice. Only the adapters are written. */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The base model that PEFT loads for the adapters. Default: none is recorded, so the user must pass it to
   * PEFT.
   */
  readonly baseModel?: string | undefined;
}

/**
 * Saves adapters in float32, for `PeftModel.from_pretrained`.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG for a model that the transformers library does not have,
 *   MTL_HUGGING_FACE_EXISTS, MTL_HUGGING_FACE_IO, MTL_CHECKPOINT_*
 */
export async function writeLoraDirectory(options: WriteLoraDirectoryOptions): Promise<void> {
  const { directory, model, lora, tensors } = options;
  const modelType = chooseGptType(model);
  if (modelType === undefined) {
    const { nearest, properties } = unstatedProperties(model);
    throw new CheckpointError(
      'MTL_HUGGING_FACE_CONFIG',
      `no model type of transformers that is known here has these blocks: ${nearest.name} lacks ${properties.join(', ')}`,
      { expected: "a GPT with a GPT-2's, Llama's, Mistral's, Qwen2's or Qwen3's blocks", exitCode: 2 },
    );
  }
  const names = loraWeightNames(model, lora);
  await publishDirectory({ directory }, async (unfinished) => {
    await writeSafetensorsFile({
      path: join(unfinished, loraWeightsName),
      metadata: { format: 'pt' },
      tensors: mappedWeightSources({
        names,
        dtype: 'F32',
        fileName: (name) => `${names.prefix}${name}`,
        tensors: tensors.filter(({ name }) => isAdapter(name)),
      }),
    });
    const config = makeConfig(options, { isGpt2: modelType === 'gpt2' });
    await writeFile(join(unfinished, loraConfigName), `${JSON.stringify(config, null, 2)}\n`);
  });
}

function makeConfig(
  { model, lora, baseModel }: WriteLoraDirectoryOptions,
  { isGpt2 }: { readonly isGpt2: boolean },
): Record<string, unknown> {
  const parameters = targetParameters(model, lora);
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: baseModel ?? null,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: lora.dropout,
    use_rslora: lora.useRslora,
    target_modules: targetNames(model, lora),
    ...(parameters.length > 0 && { target_parameters: parameters, peft_version: versionOfParameters }),
    // GPT-2's linear layers are Conv1D with transposed weights
    fan_in_fan_out: isGpt2,
    bias: 'none',
    use_dora: false,
    modules_to_save: null,
    rank_pattern: {},
    alpha_pattern: {},
    init_lora_weights: true,
    inference_mode: true,
  };
}

/** Returns the names of the adapted parameters that contain experts, for PEFT's field `target_parameters`. */
function targetParameters(model: GptModelConfiguration, lora: LoraConfiguration): readonly string[] {
  const { targets } = specifyLora(lora, model);
  return loraModules(model)
    .filter(({ target, isParameter }) => isParameter === true && targets.includes(target))
    .map(({ path }) => path);
}

/**
 * Returns the names of the adapted layers, for PEFT's field `target_modules`. If a different sublayer has a
 * layer with the same name that is not adapted, the name includes the sublayer, for example `attn.c_proj`.
 */
function targetNames(model: GptModelConfiguration, lora: LoraConfiguration): readonly string[] {
  const { targets } = specifyLora(lora, model);
  const modules = loraModules(model);
  const last = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
  const names = modules
    .filter(({ target, isParameter }) => targets.includes(target) && isParameter !== true)
    .map(({ path }) => {
      const isOfAll = modules.every(
        (other) => last(other.path) !== last(path) || targets.includes(other.target),
      );
      return isOfAll ? last(path) : path;
    });
  return [...new Set(names)];
}
