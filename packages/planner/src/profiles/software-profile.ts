import { z } from 'zod';
import { constant } from './constant.js';

/** What a training program fuses, stores and overlaps. */
export const softwareProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  description: z.string(),
  /** Of the settings that are no numbers. */
  source: z.string(),
  /** `stored-scores`: kernels that write S x S scores to memory. `flash`: one kernel that does not. */
  attention: z.enum(['stored-scores', 'flash']),
  /** Scale, mask and softmax in one kernel; bias and GeLU; bias, dropout and residual. */
  fusesKernels: z.boolean(),
  hasDropout: z.boolean(),
  /** Of one element of the accumulated gradients, which are also what is reduced. */
  gradientBytes: z.union([z.literal(2), z.literal(4)]),
  /** Whether matmuls of weight gradients add to the accumulated gradients themselves. */
  fusesGradientAccumulation: z.boolean(),
  /**
   * Which tensor-parallel collectives run behind matmuls: those of backward that another matmul can hide, or
   * also those of a matmul's own operands and result, in parts.
   */
  tensorOverlap: z.enum(['none', 'backward', 'all']),
  /** Whether a rank waits for its messages, or computes meanwhile. */
  pipelineMessages: z.enum(['blocking', 'overlapped']),
  /** Whether each tensor-parallel rank sends its part of a message only. */
  scattersMessages: z.boolean(),
  overlapsDataReduction: z.boolean(),
  /** Whether gradients are reduced in large buckets, or each tensor by itself. */
  reducesInBuckets: z.boolean(),
  distributedOptimizer: z.boolean(),
  /** Time of the host for one operation: a pass takes at least that of its operations. */
  hostSecondsPerOperation: constant,
  /** Part of the bandwidth between nodes that this program reaches in collectives. */
  linkFactor: constant,
});

export type SoftwareProfile = z.infer<typeof softwareProfile>;
