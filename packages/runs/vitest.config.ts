import { hasGpu, library, sharedBut } from '@mtl/tooling/vitest';

export default library(
  sharedBut([
    ...(hasGpu ? ['test/cuda/*.test.ts'] : []),
    'test/memory-of-*.test.ts',
    'test/{llama-training,nothing-left-open}.test.ts',
    'src/training/as-on-windows.test.ts',
  ]),
);
