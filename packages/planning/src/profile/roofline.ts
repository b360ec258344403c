import type { ComputeDtype } from '@mtl/cost-model';
import { add, cast, matmul, philoxNormal, Tensor, tidy } from '@mtl/kernels';
import type { ProfiledOperation } from './operation-profile.js';

/**
 * The measured peak rates of this process with its current threads, which limit the speed of every operation.
 */
export interface Roofline {
  /** The rate of a 1,024 x 1,024 x 1,024 matmul, by dtype. */
  readonly flopsPerSecond: Readonly<Partial<Record<ComputeDtype, number>>>;
  /**
   * The rate of reading and writing memory, measured by adding two tensors that are larger than all caches.
   */
  readonly bytesPerSecond: number;
}

const matmulSize = 1024;
/** The number of float32 elements (64 MiB) in each tensor of the measured sum. */
const sumSize = 2 ** 24;
const numRepetitions = 5;

const dtypes = { fp32: 'float32', bf16: 'bfloat16', fp16: 'float16' } as const;

/**
 * Measures the roofline for the given dtypes. This takes less than a second on two cores, and allocates 192
 * MiB.
 */
export function measureRoofline(computed: Iterable<ComputeDtype>): Roofline {
  const flopsPerSecond: Partial<Record<ComputeDtype, number>> = {};
  for (const dtype of computed) flopsPerSecond[dtype] = (2 * matmulSize ** 3) / matmulSeconds(dtype);
  return { flopsPerSecond, bytesPerSecond: (3 * 4 * sumSize) / sumSeconds() };
}

function matmulSeconds(dtype: ComputeDtype): number {
  return tidy(() => {
    const shape = [matmulSize, matmulSize];
    const tensor = (): Tensor => Tensor.empty({ shape, dtype: dtypes[dtype] });
    const [output, left, right, normal] = [
      tensor(),
      tensor(),
      tensor(),
      Tensor.empty({ shape, dtype: 'float32' }),
    ];
    // the values are random, because some processors are faster with zeros
    philoxNormal({ output: normal, standardDeviation: 1, key: [0, 0], globalColumns: matmulSize });
    for (const input of [left, right]) cast({ output: input, input: normal });
    return fastest(() => matmul({ output, left, right }));
  });
}

function sumSeconds(): number {
  return tidy(() => {
    const [output, left, right] = [0, 1, 2].map(() => Tensor.zeros({ shape: [sumSize], dtype: 'float32' }));
    return fastest(() => add({ output: output!, left: left!, right: right! }));
  });
}

function fastest(body: () => void): number {
  let seconds = Number.POSITIVE_INFINITY;
  for (let repetition = 0; repetition < numRepetitions; repetition++) {
    const start = performance.now();
    body();
    seconds = Math.min(seconds, (performance.now() - start) / 1000);
  }
  return seconds;
}

type Work = Pick<ProfiledOperation, 'dtype' | 'flops' | 'bytes'>;

/**
 * Returns the minimum time in seconds for some work according to the roofline: the larger of the time for its
 * FLOPs and the time for its bytes.
 */
export function leastSeconds({ dtype, flops, bytes }: Work, roofline: Roofline): number {
  const computing = flops === 0 ? 0 : flops / roofline.flopsPerSecond[dtype]!;
  return Math.max(computing, bytes / roofline.bytesPerSecond);
}
