import { spawnSync } from 'node:child_process';

/**
 * Returns the environment of PyTorch, without the libraries that a bundle puts before the machine's own for
 * our programs.
 */
export function peerEnvironment() {
  const { MTL_HOST_LIBRARY_PATH, ...environment } = process.env;
  if (MTL_HOST_LIBRARY_PATH === undefined) return environment;
  if (MTL_HOST_LIBRARY_PATH !== '') return { ...environment, LD_LIBRARY_PATH: MTL_HOST_LIBRARY_PATH };
  const { LD_LIBRARY_PATH, ...rest } = environment;
  return rest;
}

// Ours; PyTorch's allocator; and what PyTorch, its compiler or a library next to its allocator say of the
// driver.
const outOfMemory =
  /MTL_OUT_OF_MEMORY|OutOfMemoryError|CUDA(?: driver)? error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED/;

/**
 * Runs a program that prints a line of JSON last; the value of that line. Memory of the GPU that does not
 * suffice is a result, `{ out_of_memory: true }`; any other failure throws with what the program said, and so
 * does a run of more than `seconds`.
 */
export function runMeasurement({ command, args, env = process.env, seconds = 900 }) {
  // SIGKILL, since a program that waits for a GPU, or has children that compile, may not react to other
  // signals
  const ending = { timeout: seconds * 1000, killSignal: 'SIGKILL' };
  const options = { encoding: 'utf8', env, maxBuffer: 1 << 26, ...ending };
  const { status, signal, stdout, stderr, error } = spawnSync(command, args, options);
  if (status !== 0 && error === undefined && outOfMemory.test(`${stdout}${stderr}`)) {
    return { out_of_memory: true };
  }
  if (status !== 0) {
    const why = error?.message ?? `status ${status ?? signal}`;
    throw new Error(
      `${command} ${args.join(' ')}: ${why}\n${(stderr ?? '').split('\n').slice(-30).join('\n')}`,
    );
  }
  return JSON.parse(stdout.trim().split('\n').at(-1));
}
