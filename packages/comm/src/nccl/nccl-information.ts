import { MtlError } from '@mtl/errors';
import { addon, callNative } from '../native/addon.js';

/** NVIDIA's library of collectives, as it was found on this machine. */
export interface NcclInformation {
  /** Of the library: `2.30.7`. */
  readonly version: string;
  readonly path: string;
  /** Of the driver's `libcuda.so.1`. */
  readonly driverPath: string;
  /** The version of the header that the engine was compiled with. */
  readonly builtAgainst: string;
}

/**
 * Finds NCCL and the driver and opens both, for this process's life.
 *
 * @throws CommunicationError MTL_NCCL_NOT_BUILT where the engine was left out of the build,
 *   MTL_NCCL_NOT_FOUND with every path that was tried, MTL_NCCL_VERSION for one that is too old, MTL_CUDA
 *   where the driver refuses
 */
export function ncclInformation(): NcclInformation {
  return callNative(() => addon().ncclInformation());
}

/** Why NCCL cannot be used here, as one text; or undefined. */
export function ncclProblem(): string | undefined {
  try {
    ncclInformation();
    return undefined;
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    return error.message;
  }
}
