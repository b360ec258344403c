import { readFileSync } from 'node:fs';
import { cudaStreams, openCuda } from '@mtl/kernels/internal';

/** What the algorithms of matmuls, and which of them is the fastest, depend on. */
export interface MatmulPlatform {
  readonly gpu: string;
  readonly computeCapability: string;
  readonly numMultiprocessors: number;
  /** The CUDA that it serves, and its own version where the system tells it. */
  readonly driver: string;
  readonly cublasLt: string;
}

/** Of this process, which has device `cuda` open. */
export function matmulPlatform(): MatmulPlatform {
  const { deviceIndex } = cudaStreams();
  const { devices, driverVersion, cublasLtVersion } = openCuda({ deviceIndex });
  const { name, computeCapability, numMultiprocessors } = devices[deviceIndex]!;
  const driver = [`CUDA ${driverVersion}`, ownVersion()].filter((part) => part !== undefined).join(', ');
  return { gpu: name, computeCapability, numMultiprocessors, driver, cublasLt: cublasLtVersion };
}

/** The version of NVIDIA's kernel module, 580.65.06. */
function ownVersion(): string | undefined {
  try {
    return /(\d+\.\d+(?:\.\d+)?)/.exec(readFileSync('/proc/driver/nvidia/version', 'utf8'))?.[1];
  } catch {
    return undefined; // not shown to this process
  }
}
