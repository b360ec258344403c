import { alone, hasGpu, library, sharedBut } from '@mtl/tooling/vitest';

/**
 * Tests that each need a process of their own. Starting one for each of the other tests took more time than
 * the tests.
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
