import { join } from 'node:path';
import { type LogicalTensor, SafetensorsFile } from '@mtl/checkpoint';
import type { GptModelConfiguration } from '@mtl/models';
import { loadMappedWeights } from '../huggingface/load-mapped-weights.js';
import type { WeightFiles } from '../huggingface/weight-files.js';
import { type LoraConfiguration, loraWeightsName, loraWeightTerms } from './lora-configuration.js';
import { loraWeightNames } from './lora-weight-names.js';
import { readLoraConfiguration } from './read-lora-configuration.js';

/** An opened directory of adapters. */
export interface LoraDirectory {
  readonly directory: string;
  readonly configuration: LoraConfiguration;
  /**
   * Fills the given adapters, or slices of adapters, which are identified by their logical names.
   *
   * @throws CheckpointError before anything is written: MTL_HUGGING_FACE_WEIGHTS when names, shapes or dtypes
   *   do not match the model; MTL_SAFETENSORS_*
   */
  load(tensors: readonly LogicalTensor[]): Promise<void>;
}

/**
 * Opens a directory of adapters for a model. PEFT or `writeLoraDirectory` must have saved it.
 *
 * @param options.lora the adapters to fill. Default: the adapters in the directory
 * @throws the errors of `readLoraConfiguration`; ConfigurationError MTL_LORA_TARGETS for layers that the
 *   model does not have
 */
export async function readLoraDirectory(options: {
  readonly directory: string;
  readonly model: GptModelConfiguration;
  readonly lora?: LoraConfiguration | undefined;
}): Promise<LoraDirectory> {
  const { directory, model } = options;
  const configuration = await readLoraConfiguration(directory);
  const names = loraWeightNames(model, options.lora ?? configuration);
  return {
    directory,
    configuration,
    load: async (tensors) => {
      const file = await SafetensorsFile.open(join(directory, loraWeightsName));
      const read: WeightFiles['read'] = (options) => file.read(options);
      try {
        const weights = {
          path: file.path,
          tensors: file.tensors,
          readsRanges: true,
          read,
          terms: loraWeightTerms,
        };
        await loadMappedWeights({ weights, tensors, names });
      } finally {
        await file.close();
      }
    },
  };
}
