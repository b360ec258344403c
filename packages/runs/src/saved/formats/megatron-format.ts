import { checkpointToMegatron } from '../conversion/from-checkpoint.js';
import { megatronToCheckpoint } from '../conversion/to-checkpoint.js';
import { findFloatDtype, floatDtypes } from './float-dtypes.js';
import type { WeightFormat } from './weight-format.js';

/** The weight format of Megatron-LM checkpoints. */
export const megatronFormat: WeightFormat = {
  name: 'megatron',
  description: 'Megatron-LM (reads torch_dist and torch; writes torch_dist)',
  path: 'DIR',
  dtypes: Object.keys(floatDtypes),
  fromCheckpoint: async ({ path: directory, dtype, ...others }) => {
    const written = await checkpointToMegatron({ ...others, directory, dtype: findFloatDtype(dtype) });
    return { source: written.path, target: written.written, dtype: dtype ?? 'float32' };
  },
  toCheckpoint: {
    options: ['step', 'vocabularySize', 'loadOptimizer'],
    read: async ({ path: megatron, ...others }) => await megatronToCheckpoint({ megatron, ...others }),
  },
};
