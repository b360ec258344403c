import { KernelError } from '@mtl/errors';
import { cudaLibraryPath } from './cuda-library-path.js';
import { type CudaDevice, type CudaProbe, probeCuda } from './open-cuda.js';

/** The GPU that a single process would use, or the reason why there is no GPU. */
interface FoundGpu {
  readonly device: CudaDevice | undefined;
  /**
   * True if the GPU is emulated: the kernels are compiled for this machine's processor
   * (`tooling/cuda-emulation` of the repository), and measured times have no meaning.
   */
  readonly isEmulated: boolean;
  /** The reason, in a few words, for the missing device; undefined if there is a device. */
  readonly problem: string | undefined;
  /** The device's name, or the problem: for titles of tests that are skipped without a device. */
  readonly title: string;
  /** The result of `probeCuda`; undefined if the library cannot be queried. */
  readonly probe: CudaProbe | undefined;
  /** The reason why the library cannot be queried. */
  readonly error: KernelError | undefined;
}

/** Returns true if the default library is missing; a library that MTL_CUDA_LIBRARY names must exist. */
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
 * Finds the GPU without opening it. The result is a real GPU, or the emulation in MTL_CUDA_LIBRARY. Tests,
 * benchmarks and diagnoses use it to run on a GPU, or to report a missing GPU.
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
