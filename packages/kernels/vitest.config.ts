import { existsSync } from 'node:fs';
import { alone, library, sharedBut } from '@mtl/tooling/vitest';

/** Files of GPUs only skip where there is none, nor an emulation. */
const hasGpu = existsSync('/dev/nvidiactl') || process.env.MTL_CUDA_LIBRARY !== undefined;

/** Starting a process for each of the others took more time than their tests. */
const ofOwnProcess = [
  'test/{grouped-attention,lent-memory,meta,meta-cuda-graphs,misuse,new-outputs,op-cases,out-of-memory}.test.ts',
  'test/{philox,pytorch-parity,rotary-embedding}.test.ts',
  'test/cuda/{meta-cuda,matmul-choices,open-cuda}.test.ts',
  ...(hasGpu ? ['test/cuda/**/*.test.ts'] : []),
];

export default library(
  sharedBut(ofOwnProcess, {
    ...alone,
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.mjs'],
  }),
);
