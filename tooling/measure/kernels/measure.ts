import {
  cast,
  type Device,
  matmul,
  openDevice,
  philoxNormal,
  synchronize,
  Tensor,
} from '../../../packages/kernels/src/index.js';
import { callsPerWait } from './calls-per-wait.js';

/** The device on which benchmarks run: the value of MTL_BENCH_DEVICE, by default `cpu`. */
export const device = (process.env.MTL_BENCH_DEVICE ?? 'cpu') as Device;
openDevice(device);

const isDryRun = process.env.MTL_BENCH_DRY_RUN === '1';
const isGpu = device === 'cuda' && !isDryRun;

/** The time of a run, in seconds. On a GPU, a value is the mean of consecutive runs. */
export interface Timing {
  readonly median: number;
  /**
   * The time of the fastest run. Comparisons use it, because this is the run that other programs have
   * disturbed the least.
   */
  readonly best: number;
}

/** Times at least `minimumRuns` runs, for at least `minimumSeconds`, after a warm-up run. */
export function time(
  body: () => void,
  {
    minimumRuns = isDryRun ? 1 : 7,
    minimumSeconds = isDryRun ? 0 : 0.15,
  }: { minimumRuns?: number; minimumSeconds?: number } = {},
): Timing {
  /** Returns the time of a call in seconds, measured over `calls` calls between two waits for the GPU. */
  const run = (calls: number): number => {
    const start = process.hrtime.bigint();
    for (let call = 0; call < calls; call++) body();
    synchronize(device);
    return Number(process.hrtime.bigint() - start) / 1e9 / calls;
  };
  run(1);
  const calls = isGpu ? callsPerWait(run(1)) : 1;
  const times: number[] = [];
  let total = 0;
  while (times.length < minimumRuns || total < minimumSeconds) {
    const seconds = run(calls);
    times.push(seconds);
    total += seconds * calls;
  }
  times.sort((left, right) => left - right);
  return { median: times[Math.floor(times.length / 2)]!, best: times[0]! };
}

/**
 * Returns the bytes per second (reads and writes) at which all threads copy within `bytes` of memory. This is
 * the roofline of an operation that accesses the same amount of memory. Copies within the caches are several
 * times faster than larger copies, so an operation is compared with a copy of its own size.
 */
export function copyRate(bytes: number): number {
  const size = Math.max(16, Math.round(bytes / 8));
  const input = Tensor.zeros({ shape: [size], dtype: 'float32', device });
  const output = Tensor.zeros({ shape: [size], dtype: 'float32', device });
  const { best } = time(() => cast({ output, input }));
  input.dispose();
  output.dispose();
  return (8 * size) / best;
}

/** Returns the FLOP/s of a matmul in `dtype`, at a size for which the time to start threads is negligible. */
export function matmulRate(dtype: 'float32' | 'bfloat16'): number {
  const n = isDryRun ? 32 : device === 'cuda' ? 8192 : 1024;
  const [output, left, right] = [0, 1, 2].map(() => Tensor.zeros({ shape: [n, n], dtype, device }));
  // matmuls of zeros take less power, and therefore run faster on a GPU
  for (const tensor of [left!, right!]) {
    philoxNormal({ output: tensor, standardDeviation: 1, key: [1, 2], globalColumns: n });
  }
  const { best } = time(() => matmul({ output: output!, left: left!, right: right! }));
  for (const tensor of [output, left, right]) tensor!.dispose();
  return (2 * n ** 3) / best;
}
