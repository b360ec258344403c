/** Device memory that cuBLASLt's matmuls of a process share, outside of the allocator. */
export const cublasltWorkspaceBytes = 32 * 2 ** 20;
