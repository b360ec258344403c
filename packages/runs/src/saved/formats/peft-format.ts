import { checkpointToLora } from '../adapters/checkpoint-to-lora.js';
import type { WeightFormat } from './weight-format.js';

/** The weight format of PEFT directories with low-rank adapters. */
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
