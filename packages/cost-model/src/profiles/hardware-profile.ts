import * as z from 'zod';

/** A positive number with its source; `fitted` where a script chose it on named rows. */
export const constant = z.strictObject({
  value: z.number().positive(),
  source: z.string().min(1),
  fitted: z.boolean().optional(),
});

/** A link that ranks communicate over. */
const link = z.strictObject({
  /** Bandwidth of one GPU, in one direction, in bytes per second. */
  bytesPerSecond: constant,
  /** Fraction of the bandwidth that large transfers reach. */
  efficiency: constant,
  /** Latency of one step of a ring. */
  latencySeconds: constant,
});

export type Link = z.infer<typeof link>;

const seconds = z.strictObject({
  seconds: z.number().positive(),
  /** Half the distance between the quartiles of repeated measurements, over their median. */
  spread: z.number().min(0).optional(),
});

/** An operation by its name, its dtype and its variant: `dropout` where it draws random numbers. */
const entry = z.strictObject({
  name: z.string(),
  dtype: z.enum(['fp32', 'fp16', 'bf16']),
  variant: z.string().optional(),
});

/** Measurements of one process while `numProcesses` processes of the machine measured at the same time. */
const rates = z.strictObject({
  numProcesses: z.int().positive(),
  /** Number of threads of each process. */
  numThreads: z.int().positive(),
  /** Memory of each process, in bytes. Absent: the memory in the profile. */
  memoryBytes: z.number().positive().optional(),
  /**
   * Points of matmuls by their name: `matmul`, which is required, and others whose rate differs, such as
   * `linear_weight_gradient`.
   */
  matmuls: z
    .array(
      entry.extend({
        points: z
          .array(
            seconds.extend({
              rows: z.int().positive(),
              columns: z.int().positive(),
              depth: z.int().positive(),
            }),
          )
          .min(1),
      }),
    )
    .min(1),
  /** Attention kernels by name and by size in FLOPs, with keys per query and head size if known. */
  attention: z.array(
    entry.extend({
      points: z
        .array(
          seconds.extend({
            flops: z.number().positive(),
            keys: z.number().positive().optional(),
            headSize: z.number().positive().optional(),
          }),
        )
        .min(1),
    }),
  ),
  /**
   * Other kernels by name and by the bytes that they read and write. `kernel`, which is required, is used for
   * kernels without an entry.
   */
  kernels: z
    .array(entry.extend({ points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1) }))
    .min(1),
  /**
   * Collectives of all these processes, and messages between two processes (`message`), by the bytes of the
   * whole tensor. Absent: the times of the link. An all-to-all without an entry takes the time of an
   * all-gather, which receives the same number of bytes.
   */
  collectives: z
    .array(
      z.strictObject({
        name: z.enum(['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'message']),
        points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1),
      }),
    )
    .optional(),
  /** Host time in addition to operations: in every pass, and once a step. Absent: none. */
  host: z
    .strictObject({
      passSeconds: z.number().nonnegative(),
      stepSeconds: z.number().nonnegative(),
      /**
       * Host time to enqueue an operation, on devices that work meanwhile. Absent: included in the times of
       * operations.
       */
      operationSeconds: z.number().nonnegative().optional(),
    })
    .optional(),
});

/** Memory that a communicator of NCCL takes outside of the program's allocator. */
const communicator = z.strictObject({
  /** Number of rings of a collective within a node. */
  channelsInside: constant,
  /** Number of rings of a collective between nodes. */
  channelsBetween: constant,
  /** Bytes of the buffers of a connection that a rank receives from, for each channel. */
  receiveBytes: constant,
  /**
   * Bytes of the buffers that a rank sends from: within a node the receiver's buffers, between nodes its own.
   */
  sendBytes: constant,
});

/** A machine measured by `rates`: CPUs, or GPUs without a model. */
const measuredProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  state: z.literal('measured'),
  /** Where the rates were measured. Absent: `cpu`. */
  deviceType: z.enum(['cpu', 'cuda']).optional(),
  /** Memory of one process, in bytes. */
  memoryBytes: constant,
  /** Number of processes on one machine; further ranks are on another machine. */
  gpusPerNode: constant,
  /**
   * Rates for each measured number of processes that share the machine, with their threads; at least one
   * entry.
   */
  rates: z.array(rates).min(1),
  linkInside: link,
  /** The link between machines; absent if it was not measured. */
  linkBetween: link.optional(),
  overlapCost: constant,
  communicator: communicator.optional(),
});

export type MeasuredProfile = z.infer<typeof measuredProfile>;
export type MeasuredRates = z.infer<typeof rates>;

/** A model of a GPU and the machines around it, with few constants. */
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
    /** Fraction of peak FLOP/s that a matmul with many whole waves of the best tile sustains. */
    efficiency: constant,
    /** Cost of starting and ending a tile, as steps of its depth. */
    tileOverheadDepth: constant,
    /** Tile shapes that a multiprocessor can compute; rates are relative to the best tile. */
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
  /** Fraction of peak FLOP/s that fused attention reaches. */
  attention: z.strictObject({ flashEfficiency: constant }),
  memory: z.strictObject({
    bytesPerSecond: constant,
    /** Fraction of the bandwidth that a kernel reaches on large tensors. */
    efficiency: constant,
    /**
     * Fraction of the bandwidth that kernels on attention scores reach, which reduce rows, draw random
     * numbers or multiply by batches.
     */
    scoresEfficiency: constant,
  }),
  /** Fixed time of a kernel on the GPU; it lowers the bandwidth of small tensors. */
  kernelStartSeconds: constant,
  linkInside: link,
  /** The link between nodes: the share of the node's adapters that belongs to one GPU. */
  linkBetween: link,
  /** Slowdown of the computation that hides a collective, as a fraction of the collective's time. */
  overlapCost: constant,
  communicator: communicator.optional(),
});

/** A model of a GPU, or the measurements of a machine. */
export const hardwareProfile = z.discriminatedUnion('state', [gpuProfile, measuredProfile]);

export type GpuProfile = z.infer<typeof gpuProfile>;
export type HardwareProfile = z.infer<typeof hardwareProfile>;
