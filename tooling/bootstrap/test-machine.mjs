import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { delimiter, join } from 'node:path';

/** Names of commands that tests start where they are there: without one they skip, or take another way. */
const commands = [
  'mpirun',
  'srun',
  'torchrun',
  'chromium',
  'ip',
  'nvcc',
  'nvidia-smi',
  'python3',
  'zsh',
  'fish',
];
const files = ['/usr/include/gloo', '/usr/include/nccl.h', '/dev/nvidiactl'];

/**
 * A digest of what decides the outcome of tests next to the sources: version of Node.js, processors, programs
 * that tests start, and the variables of this project. Results that are kept count for it alone.
 */
export function machineDigest({ environment = process.env, processors = cpus() } = {}) {
  const folders = (environment.PATH ?? '').split(delimiter);
  const found = [
    ...commands.filter((name) => folders.some((folder) => existsSync(join(folder, name)))),
    ...files.filter((path) => existsSync(path)),
  ];
  const variables = Object.entries(environment).filter(([name]) => /^(MTL_|OMP_|CUDA_|CXX$|CC$)/.test(name));
  const parts = [process.version, processors.map(({ model }) => model), found, variables.sort()];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}
