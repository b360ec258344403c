import { cast, matmul, Tensor } from '../src/index.js';

/** Seconds of one run. */
export interface Timing {
  readonly median: number;
  /** The fastest run: what the machine does when nobody else has it, which is what two rates are compared by. */
  readonly best: number;
}

/** Times at least `minimumRuns` runs and `minimumSeconds`, after one that warms up. */
export function time(
  body: () => void,
  { minimumRuns = 7, minimumSeconds = 0.15 }: { minimumRuns?: number; minimumSeconds?: number } = {},
): Timing {
  body();
  const times: number[] = [];
  let total = 0;
  while (times.length < minimumRuns || total < minimumSeconds) {
    const start = process.hrtime.bigint();
    body();
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    times.push(seconds);
    total += seconds;
  }
  times.sort((left, right) => left - right);
  return { median: times[Math.floor(times.length / 2)]!, best: times[0]! };
}

/**
 * Bytes per second (read and written both counted) at which all threads copy within `bytes` of memory: the roofline of
 * an operation that touches as much. What fits the caches copies several times as fast as what does not, so an
 * operation is held against a copy of its own size.
 */
export function copyRate(bytes: number): number {
  const size = Math.max(16, Math.round(bytes / 8));
  const input = Tensor.zeros({ shape: [size], dtype: 'float32' });
  const output = Tensor.zeros({ shape: [size], dtype: 'float32' });
  const { best } = time(() => cast({ output, input }));
  input.dispose();
  output.dispose();
  return (8 * size) / best;
}

/** FLOP/s of oneDNN's matrix product of a size that no cache or thread start limits. */
export function matmulRate(dtype: 'float32' | 'bfloat16'): number {
  const n = 1024;
  const [output, left, right] = [0, 1, 2].map(() => Tensor.zeros({ shape: [n, n], dtype }));
  const { best } = time(() => matmul({ output: output!, left: left!, right: right! }));
  for (const tensor of [output, left, right]) tensor!.dispose();
  return (2 * n ** 3) / best;
}
