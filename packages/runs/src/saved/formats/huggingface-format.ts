import { mergeLora } from '../adapters/merge-lora.js';
import { checkpointToHuggingFace } from '../conversion/from-checkpoint.js';
import { huggingFaceToCheckpoint } from '../conversion/to-checkpoint.js';
import { findFloatDtype, floatDtypes, nameOfDtype } from './float-dtypes.js';
import type { WeightFormat } from './weight-format.js';

/** The weight format of transformers directories. */
export const huggingFaceFormat: WeightFormat = {
  name: 'huggingface',
  description: 'the transformers library (config.json, safetensors, tokenizer)',
  path: 'DIR',
  dtypes: Object.keys(floatDtypes),
  flags: { write: 'saveHf', read: 'loadHf' },
  fromCheckpoint: async ({ path: directory, dtype, ...others }) => {
    const written = await checkpointToHuggingFace({ ...others, directory, dtype: findFloatDtype(dtype) });
    return { source: written.path, dtype: nameOfDtype(written.dtype) };
  },
  fromHuggingFace: {
    adapters: 'required',
    write: async ({ path: directory, dtype, loadHuggingFace, loadLora, onNotice }) => {
      const model = { loadHuggingFace, loadLora: loadLora!, directory, onNotice };
      const stored = await mergeLora({ ...model, dtype: findFloatDtype(dtype) });
      return { source: `${loadHuggingFace} with ${loadLora}`, dtype: nameOfDtype(stored) };
    },
  },
  toCheckpoint: {
    options: [],
    read: async ({ path: loadHuggingFace, directory, onNotice }) => {
      const begun = await huggingFaceToCheckpoint({ loadHuggingFace, directory, onNotice });
      return { ...begun, source: loadHuggingFace };
    },
  },
};
