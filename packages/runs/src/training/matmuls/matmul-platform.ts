import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { hostInformation } from '@mtl/kernels';
import { cudaStreams, openCuda } from '@mtl/kernels/internal';
import type { ChoosingDevice } from '@mtl/kernels/matmul-choices';
import { libraryVersion } from '../../library-version.js';

/** The platform on which matmuls run. It determines which algorithms exist and how much time they take. */
export interface MatmulPlatform {
  readonly device: ChoosingDevice;
  /**
   * The platform's properties by name. Algorithms timed on one platform are used only on platforms with equal
   * properties.
   */
  readonly properties: Readonly<Record<string, string | number>>;
}

/** Returns the platform of a device that this process has opened. */
export const matmulPlatform = (device: ChoosingDevice): MatmulPlatform => ({
  device,
  properties: device === 'cuda' ? gpuProperties() : cpuProperties(),
});

/** Formats a platform for messages and checkpoints. */
export const formatPlatform = ({ properties }: MatmulPlatform): string =>
  Object.entries(properties)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

/**
 * Returns the properties of a CPU platform. They include this library's version, because its kernels change
 * between versions, and the number of threads, because a further thread may change which code is the fastest.
 */
function cpuProperties(): MatmulPlatform['properties'] {
  const { instructionSet, onednnVersion, numThreads } = hostInformation();
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    'instruction set': instructionSet,
    threads: numThreads,
    oneDNN: onednnVersion,
    '@mtl': libraryVersion,
  };
}

function gpuProperties(): MatmulPlatform['properties'] {
  const { deviceIndex } = cudaStreams();
  const { devices, driverVersion, cublasLtVersion } = openCuda({ deviceIndex });
  const { name, computeCapability, numMultiprocessors } = devices[deviceIndex]!;
  return {
    GPU: name,
    driver: [`CUDA ${driverVersion}`, kernelModuleVersion()].filter((part) => part !== undefined).join(', '),
    cuBLASLt: cublasLtVersion,
    'compute capability': computeCapability,
    multiprocessors: numMultiprocessors,
  };
}

/**
 * Returns the version of NVIDIA's kernel module, such as 580.65.06; undefined if this process cannot read it.
 */
function kernelModuleVersion(): string | undefined {
  try {
    return /(\d+\.\d+(?:\.\d+)?)/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}
