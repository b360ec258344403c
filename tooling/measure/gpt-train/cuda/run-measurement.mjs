import { spawnSync } from 'node:child_process';

/**
 * Returns the environment for PyTorch, without the libraries that a bundle puts before the machine's own
 * libraries.
 */
export function peerEnvironment() {
  const { MTL_HOST_LIBRARY_PATH, ...environment } = process.env;
  if (MTL_HOST_LIBRARY_PATH === undefined) return environment;
  if (MTL_HOST_LIBRARY_PATH !== '') return { ...environment, LD_LIBRARY_PATH: MTL_HOST_LIBRARY_PATH };
  const { LD_LIBRARY_PATH, ...rest } = environment;
  return rest;
}

// Matches the out-of-memory messages of our programs and of PyTorch's allocator, and the messages with which
// PyTorch, its compiler or its libraries report the driver's out-of-memory error.
const outOfMemory =
  /MTL_OUT_OF_MEMORY|OutOfMemoryError|CUDA(?: driver)? error: out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED/;

/**
 * Runs a program and returns the value of the JSON line that it prints last. If the GPU does not have enough
 * memory, the result is `{ out_of_memory: true }`. Any other failure, and a run of more than `seconds`,
 * throws an error with the program's output.
 */
export function runMeasurement({ command, args, env = process.env, seconds = 900 }) {
  // SIGKILL is needed, because a program that waits for a GPU, or whose children are compiling, may ignore
  // all other signals
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
