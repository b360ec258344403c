import { existsSync } from 'node:fs';
import { library, sharedBut } from '@mtl/tooling/vitest';

// without a GPU they are skipped
const onGpus = existsSync('/dev/nvidiactl') ? ['test/cuda/*.test.ts'] : [];

export default library(
  sharedBut([
    ...onGpus,
    'test/memory-of-*.test.ts',
    'test/{fine-tuning-errors,llama-training,nothing-left-open}.test.ts',
  ]),
);
