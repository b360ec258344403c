import * as z from 'zod';

/** A positive number with its source; `fitted` where a script chose it on named rows. */
export const constant = z.strictObject({
  value: z.number().positive(),
  source: z.string().min(1),
  fitted: z.boolean().optional(),
});

/** A link that ranks communicate over. */
const link = z.strictObject({
  /** Bandwidth of one GPU, in one direction. */
  bytesPerSecond: constant,
  /** Part of it that large transfers reach. */
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
  /** Threads of each process. */
  numThreads: z.int().positive(),
  /** Memory of each process. Absent: that of the profile. */
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
  /** Attention kernels by their name, their size in FLOPs; keys of a query and size of a head where known. */
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
   * Other kernels by their name, their size in bytes that they read and write. `kernel`, which is required,
   * stands for those that have no entry.
   */
  kernels: z
    .array(entry.extend({ points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1) }))
    .min(1),
  /**
   * Collectives of all these processes, and messages between two of them (`message`), by the bytes of the
   * whole tensor. Absent: those of the link; an all-to-all: an all-gather, of which as many bytes arrive.
   */
  collectives: z
    .array(
      z.strictObject({
        name: z.enum(['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'message']),
        points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1),
      }),
    )
    .optional(),
  /** Time of the host besides operations: in every pass, and once a step. Absent: none. */
  host: z
    .strictObject({
      passSeconds: z.number().nonnegative(),
      stepSeconds: z.number().nonnegative(),
      /**
       * To enqueue an operation, on devices that go on meanwhile. Absent: part of the times of operations.
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
  /** Buffers of a connection from which a rank receives, for each channel. */
  receiveBytes: constant,
  /** Buffers that a rank sends over: within a node the receiver's, between nodes ones of its own. */
  sendBytes: constant,
});

/** A machine as `rates` measured it: CPUs, or GPUs without a model. */
const measuredProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  state: z.literal('measured'),
  /** Where the rates were measured. Absent: `cpu`. */
  deviceType: z.enum(['cpu', 'cuda']).optional(),
  /** Memory of one process. */
  memoryBytes: constant,
  /** Processes of one machine: ranks beyond them are on another. */
  gpusPerNode: constant,
  /** Rates for each number of processes that share the machine, and of their threads, at least for one. */
  rates: z.array(rates).min(1),
  linkInside: link,
  /** Absent where nothing was measured between machines. */
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
    /** Part of the peak that a matmul of many whole waves of the best tile sustains. */
    efficiency: constant,
    /** Start and end of a tile, as steps of its depth. */
    tileOverheadDepth: constant,
    /** Tiles that one multiprocessor computes at a time; rates relative to the best tile. */
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
     * Part of it that kernels on attention scores reach, which reduce rows, draw random numbers or multiply
     * by batches.
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
  communicator: communicator.optional(),
});

/** A model of a GPU, or the measurements of a machine. */
export const hardwareProfile = z.discriminatedUnion('state', [gpuProfile, measuredProfile]);

export type GpuProfile = z.infer<typeof gpuProfile>;
export type HardwareProfile = z.infer<typeof hardwareProfile>;
