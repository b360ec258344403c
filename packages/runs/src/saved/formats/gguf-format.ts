import { type GgufDtype, ggufDtypes } from '@mtl/formats/gguf';
import { ggufToCheckpoint } from '../conversion/gguf-to-checkpoint.js';
import { checkpointToGguf, huggingFaceToGguf } from '../conversion/to-gguf.js';
import type { WeightFormat } from './weight-format.js';

/** The weight format of GGUF files. */
export const ggufFormat: WeightFormat = {
  name: 'gguf',
  description: 'llama.cpp and programs built on it (node-llama-cpp, Ollama), with the tokenizer',
  path: 'FILE',
  dtypes: Object.keys(ggufDtypes),
  fromCheckpoint: async ({ dtype, ...others }) =>
    await checkpointToGguf({ ...others, dtype: dtype as GgufDtype | undefined }),
  fromHuggingFace: {
    adapters: 'possible',
    write: async ({ dtype, ...others }) =>
      await huggingFaceToGguf({ ...others, dtype: dtype as GgufDtype | undefined }),
  },
  toCheckpoint: {
    options: [],
    read: async ({ path: gguf, directory, onNotice }) =>
      await ggufToCheckpoint({ gguf, directory, onNotice }),
  },
};
