import { z } from 'zod';
import { constant } from './constant.js';
import { link } from './link.js';

const seconds = z.strictObject({
  seconds: z.number().positive(),
  /** Largest deviation of repeated measurements from their median, over the median. */
  spread: z.number().min(0).optional(),
});

const dtype = z.enum(['fp32', 'fp16', 'bf16']);

/** What one process measured while `numProcesses` processes of the machine ran the same at the same time. */
const rates = z.strictObject({
  numProcesses: z.int().positive(),
  /** Of each process. */
  numThreads: z.int().positive(),
  /**
   * Matmuls by their name: `matmul`, which is required, and others whose rate differs, such as
   * `linear_weight_gradient`.
   */
  matmuls: z
    .array(
      z.strictObject({
        name: z.string(),
        dtype,
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
  /** Attention kernels by their name, their size in FLOPs. */
  attention: z.array(
    z.strictObject({
      name: z.string(),
      dtype,
      points: z.array(seconds.extend({ flops: z.number().positive() })).min(1),
    }),
  ),
  /**
   * Other kernels by their name, their size in bytes that they read and write. `kernel`, which is required,
   * stands for those that have no entry.
   */
  kernels: z
    .array(
      z.strictObject({
        name: z.string(),
        dtype,
        points: z.array(seconds.extend({ bytes: z.number().positive() })).min(1),
      }),
    )
    .min(1),
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
  /** For each number of processes that share the machine, at least for one. */
  rates: z.array(rates).min(1),
  linkInside: link,
  /** Absent where nothing was measured between machines. */
  linkBetween: link.optional(),
  overlapCost: constant,
});

export type MeasuredProfile = z.infer<typeof measuredProfile>;
export type MeasuredRates = z.infer<typeof rates>;
