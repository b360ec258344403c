import { alone, hasGpu, library, sharedBut } from '@mtl/tooling/vitest';

/**
 * Test files that need a process each. All other test files share processes, because starting a process for
 * each file took longer than the tests.
 */
const ofOwnProcess = [
  'test/{attention,lent-memory,meta,meta-cuda-graphs,misuse,new-outputs,op-cases,out-of-memory}.test.ts',
  'src/native/addon.test.ts',
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
