import * as z from 'zod';

/** A positive value with its source; `fitted` is true if a script fitted the value to measured rows. */
export const constant = z.strictObject({
  value: z.number().positive(),
  source: z.string().min(1),
  fitted: z.boolean().optional(),
});

/** A link through which ranks communicate. */
const link = z.strictObject({
  /** Bandwidth of one GPU, in one direction, in bytes per second. */
  bytesPerSecond: constant,
  /** The fraction of the bandwidth that large transfers reach. */
  efficiency: constant,
  /** Latency of one step of a ring. */
  latencySeconds: constant,
});

export type Link = z.infer<typeof link>;

const seconds = z.strictObject({
  seconds: z.number().positive(),
  /** Half the distance between the quartiles of repeated measurements, divided by their median. */
  spread: z.number().min(0).optional(),
});

/** An operation by its name, its dtype and its variant: `dropout` if it draws random numbers. */
const entry = z.strictObject({
  name: z.string(),
  dtype: z.enum(['fp32', 'fp16', 'bf16']),
  variant: z.string().optional(),
});

/** Rates of one process, measured while `numProcesses` processes of the machine ran at the same time. */
const rates = z.strictObject({
  numProcesses: z.int().positive(),
  /** Number of threads of each process. */
  numThreads: z.int().positive(),
  /** Memory of each process, in bytes. Absent: the memory in the profile. */
  memoryBytes: z.number().positive().optional(),
  /**
   * Times of matmuls by operation name: `matmul`, which is required, and names with a different rate, such as
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
  /** Times of attention kernels, by name and FLOPs, with keys per query and head size if known. */
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
   * Times of other kernels, by name and by the bytes that they read and write. `kernel`, which is required,
   * applies to kernels without an entry.
   */
  kernels: z
    .array(entry.extend({ points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1) }))
    .min(1),
  /**
   * Times of collectives of all `numProcesses` processes, and of messages between two processes (`message`),
   * by the bytes of the complete tensor. Absent: the link's constants are used. An all-to-all without an
   * entry takes as long as an all-gather, which receives the same number of bytes.
   */
  collectives: z
    .array(
      z.strictObject({
        name: z.enum(['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'message']),
        points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1),
      }),
    )
    .optional(),
  /**
   * Host time that is needed in addition to the operations, for every forward or backward pass and for every
   * step. Absent: none.
   */
  host: z
    .strictObject({
      passSeconds: z.number().nonnegative(),
      stepSeconds: z.number().nonnegative(),
      /**
       * Host time to enqueue an operation, on asynchronous devices. Absent: the times of operations include
       * it.
       */
      operationSeconds: z.number().nonnegative().optional(),
    })
    .optional(),
});

/** Memory that an NCCL communicator takes outside of the program's allocator. */
const communicator = z.strictObject({
  /** How many rings a collective uses within a node. */
  channelsInside: constant,
  /** How many rings a collective uses between nodes. */
  channelsBetween: constant,
  /** Bytes of the receive buffers of a connection, for each channel. */
  receiveBytes: constant,
  /**
   * Bytes of the send buffers of a connection: within a node, the receiver's buffers are used; between nodes,
   * the sender has its own.
   */
  sendBytes: constant,
});

/** A machine that is described by measured `rates`: CPUs, or GPUs without a model. */
const measuredProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  state: z.literal('measured'),
  /** The device whose rates were measured. Absent: `cpu`. */
  deviceType: z.enum(['cpu', 'cuda']).optional(),
  /** Memory of one process, in bytes. */
  memoryBytes: constant,
  /** The number of processes on one machine; all other ranks are on other machines. */
  gpusPerNode: constant,
  /**
   * Rates for each measured number of processes that share the machine, and their threads; at least one
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

/** A model of a GPU and its node, with few constants. */
export const gpuProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  /** `fitted` to measured rows, or `predicted` from data sheets and other GPUs. */
  state: z.enum(['fitted', 'predicted']),
  memoryBytes: constant,
  gpusPerNode: constant,
  matmul: z.strictObject({
    peakFlops: z.strictObject({ fp16: constant, bf16: constant, fp32: constant }),
    numMultiprocessors: constant,
    /** The fraction of the peak rate that a matmul sustains if it fills many waves with the best tile. */
    efficiency: constant,
    /** The cost of starting and ending a tile, in steps along its depth. */
    tileOverheadDepth: constant,
    /** Tile shapes of matmuls on a multiprocessor; rates are relative to the best tile. */
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
  /** The fraction of the peak rate that fused attention reaches. */
  attention: z.strictObject({ flashEfficiency: constant }),
  memory: z.strictObject({
    bytesPerSecond: constant,
    /** The fraction of the bandwidth that a kernel reaches on large tensors. */
    efficiency: constant,
    /**
     * The fraction of the bandwidth that kernels on attention scores reach. These kernels reduce rows, draw
     * random numbers, or are batched matmuls.
     */
    scoresEfficiency: constant,
  }),
  /**
   * Time that every kernel takes on the GPU in addition to its work, which makes small tensors relatively
   * slow.
   */
  kernelStartSeconds: constant,
  linkInside: link,
  /** The link between nodes, as the share of the node's adapters for one GPU. */
  linkBetween: link,
  /** The slowdown of computation that overlaps with a collective, as a fraction of the collective's time. */
  overlapCost: constant,
  communicator: communicator.optional(),
});

/** A model of a GPU, or the measurements of a machine. */
export const hardwareProfile = z.discriminatedUnion('state', [gpuProfile, measuredProfile]);

export type GpuProfile = z.infer<typeof gpuProfile>;
export type HardwareProfile = z.infer<typeof hardwareProfile>;
