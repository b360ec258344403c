import { existsSync } from 'node:fs';
import { library, sharedBut } from '@mtl/tooling/vitest';

// without a GPU, or an emulation of one, they are skipped
const hasGpu = existsSync('/dev/nvidiactl') || process.env.MTL_CUDA_LIBRARY !== undefined;
const onGpus = hasGpu ? ['test/cuda/*.test.ts'] : [];

export default library(
  sharedBut([
    ...onGpus,
    'test/memory-of-*.test.ts',
    'test/{fine-tuning-errors,llama-training,nothing-left-open}.test.ts',
  ]),
);
