import { ncclMessageChannels } from '@mtl/comm/internal';
import { cublasltWorkspaceBytes } from '@mtl/kernels/internal';
import { communicatorBytes, type GroupUse, type Profile } from '@mtl/planner';

/**
 * Bytes that libraries take on the GPU of a rank, outside of the allocator. The CUDA context is not counted.
 */
export interface LibraryMemory {
  /** cuBLASLt's workspace. */
  readonly matmulWorkspace: number;
  /** Buffers of NCCL's communicators, see `communicatorBytes` of @mtl/planner. */
  readonly communicators: number;
}

/** Undefined where the machine is not a model of a GPU: on CPUs libraries take nothing that counts. */
export function libraryMemory(uses: readonly GroupUse[], { hardware }: Profile): LibraryMemory | undefined {
  if (hardware.state === 'measured') return undefined;
  return {
    matmulWorkspace: cublasltWorkspaceBytes,
    communicators: communicatorBytes(uses, { gpu: hardware, messageChannels: ncclMessageChannels }),
  };
}
