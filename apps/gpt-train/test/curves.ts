import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { readMetrics, runGptTrain } from './run-gpt-train.js';

export const numSteps = 30;
export const toTheEnd = ['--train-iters', String(numSteps)];
/** Flags of a small GPT with dropout that trains within seconds. */
export const recipe = [
  ...['--preset', 'gpt2-4m', '--num-layers', '2', '--hidden-size', '64', '--num-attention-heads', '4'],
  ...['--seq-length', '32'],
  ...['--tokenizer-type', 'ByteLevelTokenizer', '--micro-batch-size', '1', '--global-batch-size', '8'],
  ...['--attention-dropout', '0.1', '--hidden-dropout', '0.1', '--lr', '5e-4', '--lr-warmup-iters', '5'],
  ...['--eval-iters', '0', '--log-interval', '1', '--threads', '1'],
];
export const everything = [
  ...['--tensor-model-parallel-size', '2', '--sequence-parallel', '--use-distributed-optimizer'],
  ...['--overlap-grad-reduce', '--overlap-param-gather'],
];

export type Curve = ReadonlyMap<number, { readonly loss: number; readonly norm: number }>;

/**
 * Returns losses and norms by iteration. An iteration that was repeated after a failure has its last values.
 */
export function readCurve(path: string): Curve {
  return new Map(
    readMetrics(path).map((step) => [step.iteration!, { loss: step.lm_loss!, norm: step.grad_norm! }]),
  );
}

export function expectSameCurve(curve: Curve, expected: Curve): void {
  expect([...curve.keys()]).toEqual([...expected.keys()]);
  for (const [iteration, { loss, norm }] of expected) {
    const step = curve.get(iteration)!;
    // rounding alone was measured at 2e-7 (loss) and 2e-6 (norm) between layouts
    expect(Math.abs(step.loss / loss - 1), `loss of step ${iteration}`).toBeLessThan(2e-6);
    expect(Math.abs(step.norm / norm - 1), `gradient norm of step ${iteration}`).toBeLessThan(2e-5);
  }
}

/** Returns the number of lines that a training run has written to its metrics file so far. */
export function countLines(path: string): number {
  try {
    return readFileSync(path, 'utf8').split('\n').length;
  } catch (error) {
    // the file does not exist yet, or a restarted run is replacing it
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

/** Trains in one process, as run `one` in `directory`, and returns its curve. */
export async function undisturbedCurve(directory: string): Promise<Curve> {
  const metrics = join(directory, 'one.jsonl');
  const flags = [...recipe, ...toTheEnd, '--save', 'one', '--metrics-jsonl', metrics];
  const { code, output } = await runGptTrain({ flags, directory });
  expect(output).toContain('lm loss');
  expect(code).toBe(0);
  return readCurve(metrics);
}
