import { z } from 'zod';
import { constant } from './constant.js';
import { link } from './link.js';
import { measuredProfile } from './measured-profile.js';

/** What a GPU and the machines around it can do: a model with few constants. */
export const gpuProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  /** `fitted` on measured rows, or `predicted` from data sheets and other GPUs. */
  state: z.enum(['fitted', 'predicted']),
  memoryBytes: constant,
  gpusPerNode: constant,
  matmul: z.strictObject({
    peakFlops: z.strictObject({ fp16: constant, bf16: constant, fp32: constant }),
    numMultiprocessors: constant,
    /** Part of the peak that a matmul of many whole waves of the best tile sustains. */
    efficiency: constant,
    /** Start and end of a tile, as steps of its depth. */
    tileOverheadDepth: constant,
    /** What one multiprocessor computes at a time; rates relative to the best tile. */
    tiles: z
      .array(
        z.strictObject({
          rows: z.int().positive(),
          columns: z.int().positive(),
          relativeRate: z.number().positive().max(1),
        }),
      )
      .min(1),
    tilesSource: z.string(),
  }),
  /** Part of the peak that fused attention reaches. */
  attention: z.strictObject({ flashEfficiency: constant }),
  memory: z.strictObject({
    bytesPerSecond: constant,
    /** Part of it that a kernel reaches on large tensors. */
    efficiency: constant,
    /**
     * The same of kernels on attention scores, which reduce rows, draw random numbers or multiply by batches.
     */
    scoresEfficiency: constant,
  }),
  /** Fixed time of a kernel on the GPU: with it, small tensors have a low bandwidth. */
  kernelStartSeconds: constant,
  linkInside: link,
  /** Between nodes, the part of the node's adapters that belongs to one GPU. */
  linkBetween: link,
  /** Part of a hidden collective's time by which the computation that hides it becomes longer. */
  overlapCost: constant,
  /** What a communicator of NCCL takes outside of the program's allocator. */
  communicator: z
    .strictObject({
      /** Rings of a collective within a node. */
      channelsInside: constant,
      /** The same between nodes. */
      channelsBetween: constant,
      /** Buffers of a connection from which a rank receives, for each channel. */
      receiveBytes: constant,
      /** What it sends over: within a node to the receiver's buffers, between nodes from ones of its own. */
      sendBytes: constant,
    })
    .optional(),
});

/** A model of a GPU, or what was measured on a machine. */
export const hardwareProfile = z.discriminatedUnion('state', [gpuProfile, measuredProfile]);

export type GpuProfile = z.infer<typeof gpuProfile>;
export type HardwareProfile = z.infer<typeof hardwareProfile>;
