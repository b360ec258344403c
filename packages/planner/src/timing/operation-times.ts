import type { FusedAttentionOperation, KernelOperation, MatmulOperation } from '../operations/operation.js';

/** Seconds of operations on one GPU or in one process. */
export interface OperationTimes {
  matmul(operation: MatmulOperation): number;
  kernel(operation: KernelOperation): number;
  attention(operation: FusedAttentionOperation): number;
}
