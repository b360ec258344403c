import { checkpointToGgufLora, loraToGguf } from '../conversion/to-gguf-lora.js';
import type { WeightFormat } from './weight-format.js';

/** The weight format of GGUF files with low-rank adapters. */
export const ggufLoraFormat: WeightFormat = {
  name: 'gguf-lora',
  description: 'low-rank adapters alone, for the file that --to gguf writes of their model',
  path: 'FILE',
  dtypes: [],
  fromCheckpoint: async ({ path, load, checkpointStep, onNotice }) => ({
    source: await checkpointToGgufLora({ path, load, checkpointStep, onNotice }),
  }),
  fromHuggingFace: {
    adapters: 'required',
    write: async ({ path, loadHuggingFace, loadLora, onNotice }) => ({
      source: await loraToGguf({ path, loadHuggingFace, loadLora: loadLora!, onNotice }),
    }),
  },
};
