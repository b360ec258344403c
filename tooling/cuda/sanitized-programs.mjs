import { join } from 'node:path';

// those of the native tests that work on the GPU: the others' kernels are linked in, for the emulation
const nativeTestsOfGpu = ['cuda_kernels', 'device_api_orders_streams', 'device_memory_is_counted'];

/**
 * Programs that are run under compute-sanitizer, and alone under emulation; `tools` are those that
 * look at each, the one that finds most first. Node is slow under them: the native tests have all operations,
 * a few are called as training runs call them, and recorded as graphs.
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
