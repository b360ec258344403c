import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * The names of commands that tests start if they are installed. Without them, tests are skipped or use a
 * substitute.
 */
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
 * Returns a digest of everything except the sources that determines the results of tests: the version of
 * Node.js, the processors, the programs that tests start, and the environment variables of this project.
 * Cached results are valid only for the same digest.
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
