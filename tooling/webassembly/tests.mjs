/** Files of packages/kernels: every operation, random numbers, memory. */
const ofOperations = [
  'test/op-cases.test.ts',
  'test/same-bits.test.ts',
  'test/pytorch-parity.test.ts',
  'test/philox.test.ts',
  'test/not-a-number.test.ts',
  'test/lent-memory.test.ts',
  'test/out-of-memory.test.ts',
  'test/webassembly-modules.test.ts',
];

/**
 * The tests that run once more with kernels as WebAssembly: a folder, its test files, and for some the names
 * of tests, as a regular expression. Tests of several processes are left out, because WebAssembly refuses
 * several processes. `kernels` is the value of MTL_KERNELS, by default wasm.
 *
 * @type {readonly { folder: string, files: string[], names?: string, kernels?: string }[]}
 */
export const tests = [
  {
    folder: 'packages/kernels',
    files: ofOperations,
  },
  { folder: 'packages/kernels', files: ['test/meta.test.ts'], names: 'takes addresses again' },
  // the ranks are threads of one process, and each has separate kernels
  { folder: 'packages/comm', files: ['test/in-memory-group.test.ts'] },
  // the default run; its golden losses were computed with the native kernels
  {
    folder: 'apps/gpt-train',
    files: ['test/end-to-end.test.ts'],
    names: 'golden losses',
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
  // the module without shared memory, and the same in a page that is not isolated
  { folder: 'packages/kernels', files: ofOperations, kernels: 'wasm-single' },
  { folder: 'packages/runs', files: ['test/page'], kernels: 'wasm-single' },
  {
    folder: 'apps/gpt-train',
    files: ['test/end-to-end.test.ts'],
    names: 'golden losses',
    kernels: 'wasm-single',
  },
  // the module with relaxed SIMD, which Node.js has from version 22 on
  { folder: 'packages/kernels', files: ofOperations, kernels: 'wasm-relaxed' },
  { folder: 'packages/runs', files: ['test/page'], kernels: 'wasm-relaxed' },
  {
    folder: 'apps/gpt-train',
    files: ['test/end-to-end.test.ts'],
    names: 'golden losses',
    kernels: 'wasm-relaxed',
  },
];
