import { MtlError } from '@mtl/errors';
import { type CudaProbe, findGpu, openCuda } from '@mtl/kernels/internal';
import { formatBytes } from '@mtl/trainer/internal';
import type { Finding } from './finding.js';

/** A GPU is never needed, so nothing here is `missing`: what lacks is a note, with what would bring it. */
function note(name: string, error: unknown): Finding {
  // Without the kernels there is no CUDA either; they have a finding of their own.
  if (!MtlError.isInstance(error)) throw error;
  const { message, remedy } = error;
  return { name, status: 'note', value: message, ...(remedy === undefined ? {} : { remedy }) };
}

function devicesOf({ devices }: CudaProbe): readonly Finding[] {
  return devices.map(({ name, computeCapability, memoryBytes, numMultiprocessors }, index) => ({
    name: `GPU ${index}`,
    status: 'ok',
    value: `${name}, compute capability ${computeCapability}, ${formatBytes(memoryBytes)}, ${numMultiprocessors} multiprocessors`,
  }));
}

/** cuBLASLt, which is found by opening the first device. */
function cublasLt(): Finding {
  try {
    const { cublasLtVersion, cublasLtPath } = openCuda();
    return { name: 'cuBLASLt', status: 'ok', value: `${cublasLtVersion}, ${cublasLtPath}` };
  } catch (error) {
    return note('cuBLASLt', error);
  }
}

/**
 * What there is of CUDA: the library of the kernels, driver, devices and NVIDIA's libraries, with versions
 * and paths.
 */
export function cudaFindings(): readonly Finding[] {
  const { probe, error } = findGpu();
  if (probe === undefined) return [note('CUDA library', error)];
  const { libraryPath, runtimeVersion, driverVersion, devices } = probe;
  const library: Finding = {
    name: 'CUDA library',
    status: 'ok',
    value: `${libraryPath}, built with CUDA ${runtimeVersion}`,
  };
  const driver: Finding =
    driverVersion === undefined
      ? {
          name: 'NVIDIA driver',
          status: 'note',
          value: 'not found (libcuda.so.1)',
          remedy: 'for --device cuda: install an NVIDIA driver that serves CUDA 13 (580 or later)',
        }
      : { name: 'NVIDIA driver', status: 'ok', value: `serves CUDA ${driverVersion}` };
  if (devices.length > 0) return [library, driver, ...devicesOf(probe), cublasLt()];
  return driverVersion === undefined
    ? [library, driver]
    : [library, driver, { name: 'GPU', status: 'note', value: 'the driver shows none to this process' }];
}
