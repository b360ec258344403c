/**
 * Sizes of the activations of one step of the two GPT presets: S sequence, B micro-batch, H hidden, F
 * feed-forward.
 */
export interface BenchmarkSizes {
  readonly preset: string;
  readonly sequence: number;
  readonly batch: number;
  readonly hidden: number;
  readonly feedForward: number;
  /** The shape of the logits of one chunk of tokens. */
  readonly logits: readonly [rows: number, width: number];
  /** The number of parameters of about one layer, for the optimizer. */
  readonly parameters: number;
}

/**
 * The sizes for a GPU. The tensors of an operation exceed the 50 or 60 MB of cache, so that the memory's
 * bandwidth shows. With larger sizes the reference, which checks the values first, would take minutes.
 */
const sizesOfGpu: readonly BenchmarkSizes[] = [
  {
    preset: 'gpt2-1.3b',
    sequence: 2048,
    batch: 4,
    hidden: 2048,
    feedForward: 8192,
    logits: [1024, 50304],
    parameters: 4 * 2048 * 2048,
  },
];

/**
 * The sizes for the emulation of a GPU, where a thread takes a microsecond: the times mean nothing, but every
 * line of a benchmark runs.
 */
const sizesOfDryRun: readonly BenchmarkSizes[] = [
  {
    preset: 'dry run',
    sequence: 16,
    batch: 1,
    hidden: 64,
    feedForward: 128,
    logits: [16, 128],
    parameters: 4096,
  },
];

/** The kind of time that is measured: bench/measure.ts reads the same variables. */
export const timedKind: 'host' | 'gpu' | 'dry run' =
  process.env.MTL_BENCH_DRY_RUN === '1'
    ? 'dry run'
    : process.env.MTL_BENCH_DEVICE === 'cuda'
      ? 'gpu'
      : 'host';

const sizesOfHost: readonly BenchmarkSizes[] = [
  {
    preset: 'char-10m',
    sequence: 256,
    batch: 16,
    hidden: 384,
    feedForward: 1536,
    logits: [4096, 128],
    parameters: 12 * 384 * 384,
  },
  {
    preset: 'gpt2-124m',
    sequence: 1024,
    batch: 2,
    hidden: 768,
    feedForward: 3072,
    logits: [512, 50304],
    parameters: 12 * 768 * 768,
  },
];

/** The sizes of this run. */
export const benchmarkSizes = { host: sizesOfHost, gpu: sizesOfGpu, 'dry run': sizesOfDryRun }[timedKind];
