import { checkpointToLora } from '../adapters/checkpoint-to-lora.js';
import type { WeightFormat } from './weight-format.js';

/** Low-rank adapters in the format of PEFT. */
export const peftFormat: WeightFormat = {
  name: 'peft',
  description: 'the low-rank adapters of a run with --lora-rank, for PEFT',
  path: 'DIR',
  dtypes: [],
  flags: { write: 'saveLora' },
  fromCheckpoint: async ({ path: directory, load, checkpointStep, onNotice }) => ({
    source: await checkpointToLora({ load, checkpointStep, directory, onNotice }),
  }),
};
