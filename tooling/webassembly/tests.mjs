/**
 * The tests that run once more with the WebAssembly kernels: a folder, its test files and, for some, a
 * regular expression for test names. Tests with several processes are left out, because the WebAssembly
 * kernels reject them. Tests with `isForEveryNode` run once for each version of Node.js that test:wasm is
 * given.
 *
 * @type {readonly { folder: string, files: string[], names?: string, isForEveryNode?: boolean }[]}
 */
export const tests = [
  {
    folder: 'packages/kernels',
    files: [
      'test/op-cases.test.ts',
      'test/same-bits.test.ts',
      'test/pytorch-parity.test.ts',
      'test/philox.test.ts',
      'test/not-a-number.test.ts',
      'test/lent-memory.test.ts',
      'test/out-of-memory.test.ts',
    ],
    isForEveryNode: true,
  },
  { folder: 'packages/kernels', files: ['test/meta.test.ts'], names: 'takes addresses again' },
  // the ranks are threads of one process, and each has separate kernels
  { folder: 'packages/comm', files: ['test/in-memory-group.test.ts'] },
  // the default run; its golden losses were computed with the native kernels
  {
    folder: 'apps/gpt-train',
    files: ['test/end-to-end.test.ts'],
    names: 'golden losses',
    isForEveryNode: true,
  },
  { folder: 'apps/bert-train', files: ['test/end-to-end.test.ts'] },
  { folder: 'packages/runs', files: ['test/lora.test.ts', 'test/page'] },
  { folder: 'packages/cli', files: ['test/sft.test.ts', 'test/convert-gguf.test.ts', 'test/watch.test.ts'] },
  {
    folder: 'packages/cli',
    files: ['test/model.test.ts'],
    names: 'needs no flag but --load|continues a prompt and streams',
  },
  { folder: 'packages/cli', files: ['test/plan.test.ts'] },
];
