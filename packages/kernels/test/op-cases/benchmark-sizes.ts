/** Sizes of the activations of one step of the two GPT presets: S sequence, B micro-batch, H hidden, F feed-forward. */
export interface BenchmarkSizes {
  readonly preset: string;
  readonly sequence: number;
  readonly batch: number;
  readonly hidden: number;
  readonly feedForward: number;
  /** Logits of one chunk of tokens: [rows, width]. */
  readonly logits: readonly [rows: number, width: number];
  /** Parameters of about one layer, for the optimizer. */
  readonly parameters: number;
}

export const benchmarkSizes: readonly BenchmarkSizes[] = [
  {
    preset: 'char-10m',
    ...{ sequence: 256, batch: 16, hidden: 384, feedForward: 1536 },
    ...{ logits: [4096, 128], parameters: 12 * 384 * 384 },
  },
  {
    preset: 'gpt2-124m',
    ...{ sequence: 1024, batch: 2, hidden: 768, feedForward: 3072 },
    ...{ logits: [512, 50304], parameters: 12 * 768 * 768 },
  },
];
