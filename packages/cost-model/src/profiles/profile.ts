import { ConfigurationError } from '@mtl/errors';
import * as z from 'zod';
import { constant, type GpuProfile, type HardwareProfile, hardwareProfile } from './hardware-profile.js';

const common = {
  version: z.literal(1),
  name: z.string(),
  description: z.string(),
  /** The source of the settings that are not numbers. */
  source: z.string(),
  /**
   * Host time per operation. A forward or backward pass takes at least the host time of all its operations.
   */
  hostSecondsPerOperation: constant,
  /** The fraction of the bandwidth between nodes that this program's collectives reach. */
  linkFactor: constant,
};

/** The programs of this project; dry runs record their operations with fusion, memory and overlap. */
const recordedSoftware = z.strictObject({ ...common, operations: z.literal('recorded') });

/**
 * A program other than this project's, whose operations are listed by hand, with its fusion, memory and
 * overlap.
 */
const listedSoftware = z.strictObject({
  ...common,
  operations: z.literal('listed'),
  /**
   * `stored-scores`: kernels that write S x S scores to memory. `flash`: one kernel that does not write the
   * scores.
   */
  attention: z.enum(['stored-scores', 'flash']),
  /**
   * True if one kernel computes scale, mask and softmax, one kernel computes bias and GELU, and one kernel
   * computes bias, dropout and residual.
   */
  fusesKernels: z.boolean(),
  hasDropout: z.boolean(),
  /** Bytes per element of the accumulated gradients, which are reduced in the same dtype. */
  gradientBytes: z.union([z.literal(2), z.literal(4)]),
  /** True if the matmul of a weight gradient adds to the accumulated gradient. */
  fusesGradientAccumulation: z.boolean(),
  /**
   * The tensor-parallel collectives that overlap with matmuls. `backward`: collectives of the backward pass
   * that overlap with a matmul of different operands. `all`: also collectives of a matmul's own operands and
   * result, in pieces.
   */
  tensorOverlap: z.enum(['none', 'backward', 'all']),
  /**
   * If true, a column-parallel matmul keeps its gathered input for the weight gradient. If false, the
   * backward pass gathers the input again if there is sequence parallelism (Korthikanti et al. 2022, section
   * 4.2.2). Default: false.
   */
  keepsGatheredInputs: z.boolean().optional(),
  /**
   * Messages between stages: `blocking` if a rank waits for them, `overlapped` if the rank computes
   * meanwhile.
   */
  pipelineMessages: z.enum(['blocking', 'overlapped']),
  /** True if each tensor-parallel rank sends only its part of a message. */
  scattersMessages: z.boolean(),
  /** The runs in which the reduction of gradients overlaps with the backward pass. */
  dataOverlap: z.enum(['never', 'without-pipeline', 'always']),
  /** True if gradients are reduced in large buckets, false if tensor by tensor. */
  reducesInBuckets: z.boolean(),
  distributedOptimizer: z.boolean(),
  /**
   * True if parameters are sharded, and each layer is gathered for every forward and backward pass (ZeRO-3).
   */
  shardsParameters: z.boolean().optional(),
  /** The communication of sharded parameters, if it differs from other collectives of the program. */
  shardedParameters: z
    .strictObject({
      /**
       * The bandwidth that gathers and reductions of layers reach, as a fraction of the bandwidth of other
       * collectives.
       */
      linkFactor: constant,
      /** The fraction of the communication that computation can hide. */
      overlap: constant,
    })
    .optional(),
  /**
   * The operations that selective recomputation computes again: attention between its matmuls, or every
   * second matmul of a layer with the kernels between matmuls. Default: attention.
   */
  selectiveRecomputation: z.enum(['attention', 'alternate-matmuls']).optional(),
  /** The layouts that the program supports. A search offers only these layouts. */
  layouts: z.strictObject({
    /** Schedules of pipelines; empty if the program has no pipeline. */
    schedules: z.array(z.enum(['1f1b', 'interleaved'])),
    /** The smallest number of stages for the interleaved schedule. */
    leastInterleavedStages: z.int().min(2),
    sequenceParallel: z.boolean(),
    /** The supported kinds of recomputation that differ in time or memory. */
    recomputations: z.array(z.enum(['none', 'selective', 'full'])).min(1),
    source: z.string(),
  }),
});

/** A training program. */
export const softwareProfile = z.discriminatedUnion('operations', [recordedSoftware, listedSoftware]);

export type ListedSoftware = z.infer<typeof listedSoftware>;
type SoftwareProfile = z.infer<typeof softwareProfile>;

/** A machine with the program that runs on it. */
export interface Profile {
  readonly name: string;
  readonly hardware: HardwareProfile;
  readonly software: SoftwareProfile;
}

/** A model of a GPU, and a program that has operation lists. */
export interface ListedProfile extends Profile {
  readonly hardware: GpuProfile;
  readonly software: ListedSoftware;
}

/**
 * Returns the profile if its program has operation lists.
 *
 * @throws ConfigurationError `MTL_PROFILE` if its operations must be recorded
 */
export function listedProfile(profile: Profile): ListedProfile {
  const { name, hardware, software } = profile;
  if (software.operations === 'listed' && hardware.state !== 'measured') return { name, hardware, software };
  throw new ConfigurationError('MTL_PROFILE', `${name} does not list the operations of a step`, {
    expected: 'a model of a GPU with software whose operations are listed, such as a100-80gb-megatron',
    remedy: 'predict a step of @mtl with mtl plan, which records its operations',
  });
}

const wholeProfile = z
  .strictObject({ name: z.string(), hardware: hardwareProfile, software: softwareProfile })
  .refine(({ hardware, software }) => hardware.state !== 'measured' || software.operations === 'recorded', {
    path: ['software', 'operations'],
    message: 'rates are measured of recorded operations',
  });

/**
 * Checks a user's profile, an object parsed from JSON with `name`, `hardware` and `software`.
 *
 * @throws ConfigurationError `MTL_PROFILE`, which names the first wrong key
 */
export function parseProfile(value: unknown, source = 'the profile'): Profile {
  const result = wholeProfile.safeParse(value);
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw new ConfigurationError('MTL_PROFILE', `${source}: ${path.join('.') || 'the whole'}: ${message}`, {
    expected:
      'name, hardware and software, where every constant is { "value": a number above 0, "source": "..." }',
    remedy: 'start from a shipped profile: loadProfile(name) returns such an object',
  });
}
