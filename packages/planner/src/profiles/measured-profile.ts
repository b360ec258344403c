import { z } from 'zod';
import { constant } from './constant.js';
import { link } from './link.js';

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

/** What one process measured while `numProcesses` processes of the machine ran the same at the same time. */
const rates = z.strictObject({
  numProcesses: z.int().positive(),
  /** Of each process. */
  numThreads: z.int().positive(),
  /** Of each process. Absent: that of the profile. */
  memoryBytes: z.number().positive().optional(),
  /**
   * Matmuls by their name: `matmul`, which is required, and others whose rate differs, such as
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
  /** What the host does besides operations: in every pass, and once a step. Absent: nothing. */
  host: z
    .strictObject({ passSeconds: z.number().nonnegative(), stepSeconds: z.number().nonnegative() })
    .optional(),
});

/** What a machine can do, as `rates` measured it: CPUs, or GPUs of which no model is at hand. */
export const measuredProfile = z.strictObject({
  version: z.literal(1),
  name: z.string(),
  device: z.string(),
  state: z.literal('measured'),
  /** Of one process. */
  memoryBytes: constant,
  /** Processes of one machine: ranks beyond them are on another. */
  gpusPerNode: constant,
  /** For each number of processes that share the machine, and of their threads, at least for one. */
  rates: z.array(rates).min(1),
  linkInside: link,
  /** Absent where nothing was measured between machines. */
  linkBetween: link.optional(),
  overlapCost: constant,
});

export type MeasuredProfile = z.infer<typeof measuredProfile>;
export type MeasuredRates = z.infer<typeof rates>;
