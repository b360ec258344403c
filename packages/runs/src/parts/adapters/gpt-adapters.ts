import { describeGptModel } from '@mtl/configuration';
import type { AdaptedConfiguration } from '@mtl/configuration/internal';
import { isAdapter, mergedWeights, readLoraDirectory, specifyLora, writeLoraDirectory } from '@mtl/formats';
import { loraModules } from '@mtl/formats/internal';
import { type GptModelConfiguration, gptParameters } from '@mtl/models';
import { checkHuggingFaceTarget } from '../models/hugging-face-targets.js';
import { nameOfBaseModel } from '../models/name-of-base-model.js';
import type { ModelAdapters } from './model-adapters.js';

/** Low-rank adapters of a GPT (LoRA, Hu et al. 2021), stored in PEFT's format. */
export const gptAdapters: ModelAdapters<GptModelConfiguration> = {
  makeLayerOptions,
  numParameters: (configuration, model) =>
    listParameters(configuration, model)?.reduce((sum, { size }) => sum + size, 0),
  numActiveParameters: (configuration, model) => {
    const { numExperts = 1, moeRouterTopk = 2 } = model;
    return listParameters(configuration, model)?.reduce(
      (sum, { size, placement }) =>
        sum + (placement.view === 'expert' ? (size / numExperts) * moeRouterTopk : size),
      0,
    );
  },
  selectAmongLayers: ({ lora, model }) => {
    if (lora === undefined) return {};
    // the names of modules do not depend on the vocabulary size, so 1 is used
    const paths = loraModules(describeGptModel(model, 1)).map(({ path }) => path);
    const isThere = (target: string): boolean =>
      target === 'all-linear' || paths.some((path) => path === target || path.endsWith(`.${target}`));
    const targets = lora.targets.filter(isThere);
    // a model without targets would have no trained parameters, so one layer gets an adapter, which needs
    // little memory
    return { lora: { ...lora, targets: targets.length > 0 ? targets : paths.slice(0, 1) } };
  },
  open: async ({ checkpoint: { loadLora, saveLora }, lora }, model) => {
    if (saveLora !== undefined) checkHuggingFaceTarget(saveLora, 'save-lora');
    if (loadLora === undefined) return undefined;
    return await readLoraDirectory({ directory: loadLora, model, lora });
  },
  save: async ({ checkpoint: { saveLora: directory, loadHuggingFace }, lora }, trained) => {
    // `lora` is set here, because --save-lora is rejected without adapters
    const baseModel = nameOfBaseModel(loadHuggingFace);
    if (directory !== undefined) await writeLoraDirectory({ ...trained, lora: lora!, baseModel, directory });
    return directory;
  },
  merged: ({ lora }, { model, tensors }) =>
    lora === undefined ? tensors : mergedWeights(tensors, { model, lora }),
};

function makeLayerOptions({ lora }: AdaptedConfiguration, model: GptModelConfiguration) {
  return lora === undefined ? {} : { lora: specifyLora(lora, model) };
}

function listParameters(configuration: AdaptedConfiguration, model: GptModelConfiguration) {
  if (configuration.lora === undefined) return undefined;
  return gptParameters(model, makeLayerOptions(configuration, model)).filter(({ name }) => isAdapter(name));
}
