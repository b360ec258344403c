import { join } from 'node:path';

// The native tests that use the GPU. All further native tests link the emulation's kernels.
const nativeTestsOfGpu = ['cuda_kernels', 'device_api_orders_streams', 'device_memory_is_counted'];

/**
 * Returns the programs to run under compute-sanitizer or, under emulation, without it. `tools`: the tools of
 * compute-sanitizer for each program, the most useful first. Node is slow under these tools. Therefore native
 * tests cover all operations, whereas Node calls only a few operations, in the same way as a training run,
 * and records them as graphs.
 */
export function sanitizedPrograms({ kernels, nativeTests }) {
  return [
    {
      name: 'native tests',
      command: nativeTests,
      args: nativeTestsOfGpu,
      minutes: 120,
      tools: ['memcheck', 'racecheck', 'initcheck'],
    },
    {
      name: 'operations and graphs, called from JavaScript',
      command: process.execPath,
      minutes: 60,
      args: [
        ...['--conditions=@mtl/source', '--import', '@mtl/tooling/typescript-loader'],
        join(kernels, 'test/cuda/few-operations.ts'),
      ],
      tools: ['memcheck'],
    },
  ];
}
