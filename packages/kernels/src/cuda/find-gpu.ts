import { KernelError } from '@mtl/errors';
import { cudaLibraryPath } from './cuda-library-path.js';
import { type CudaDevice, type CudaProbe, probeCuda } from './open-cuda.js';

/** The GPU that a single process would use, or why there is none. */
interface FoundGpu {
  readonly device: CudaDevice | undefined;
  /**
   * True if the GPU is emulated: the kernels are compiled for this machine's processor (see
   * `tooling/cuda-emulation` in the repository), so measured times have no meaning.
   */
  readonly isEmulated: boolean;
  /** Why there is no device, in a few words; undefined if there is a device. */
  readonly problem: string | undefined;
  /** The device's name, or the problem. Used in the titles of tests that are skipped without a device. */
  readonly title: string;
  /** The result of `probeCuda`; undefined if the library cannot be queried. */
  readonly probe: CudaProbe | undefined;
  /** Why the library cannot be queried; undefined if it can. */
  readonly error: KernelError | undefined;
}

/** Returns true if the default library is missing. If MTL_CUDA_LIBRARY names a library, it must exist. */
function isNotBuilt(): boolean {
  if (process.env.MTL_CUDA_LIBRARY !== undefined) return false;
  try {
    cudaLibraryPath();
    return false;
  } catch {
    return true;
  }
}

/**
 * Finds the GPU without opening it. The result is a real GPU, or the emulation that MTL_CUDA_LIBRARY names.
 * Tests, benchmarks and diagnoses use it to run on a GPU, or to report that there is none.
 */
export function findGpu(): FoundGpu {
  let probe: CudaProbe;
  try {
    probe = probeCuda();
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    const problem = isNotBuilt() ? 'no CUDA library built' : error.message;
    return { device: undefined, isEmulated: false, problem, title: problem, probe: undefined, error };
  }
  const [device] = probe.devices;
  if (device === undefined) {
    const problem = probe.driverVersion === undefined ? 'no NVIDIA driver' : 'no CUDA device';
    return { device, isEmulated: false, problem, title: problem, probe, error: undefined };
  }
  const isEmulated = device.name.startsWith('emulation');
  return { device, isEmulated, problem: undefined, title: device.name, probe, error: undefined };
}
