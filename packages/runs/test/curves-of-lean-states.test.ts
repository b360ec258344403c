import type { RunOptions } from '@mtl/configuration';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TrainingRuns } from './support/training-runs.js';

const numSteps = 120;
const lean = {
  'states in bf16': { expAvgDtype: 'bf16', expAvgSqDtype: 'bf16' },
  'states in fp16': { expAvgDtype: 'fp16', expAvgSqDtype: 'fp16' },
  'states and gradients in bf16': { expAvgDtype: 'bf16', expAvgSqDtype: 'bf16', mainGradsDtype: 'bf16' },
} as const satisfies Record<string, RunOptions['optimizer']>;

let runs: TrainingRuns;
beforeAll(async () => {
  runs = await TrainingRuns.create({
    training: { trainIterations: numSteps, evalInterval: numSteps, bf16: true },
    optimizer: { learningRateDecayIterations: numSteps },
  });
  await runs.run(1, [
    { name: 'fp32' },
    ...Object.entries(lean).map(([name, optimizer]) => ({
      name,
      options: { optimizer: { usePrecisionAwareOptimizer: true, ...optimizer } },
    })),
  ]);
}, 400_000);
afterAll(() => runs.remove());

it.each(Object.keys(lean))(
  'the loss of a bf16 GPT over 120 steps stays near the loss with fp32 states: %s',
  (name) => {
    const [own, expected] = [name, 'fp32'].map((each) =>
      runs.readMetrics(each).map(({ lm_loss }) => lm_loss),
    );
    expect(own!.length).toBe(numSteps);
    expect(expected![0]! - expected!.at(-1)!).toBeGreaterThan(1);
    const differences = own!.map((loss, step) => Math.abs(loss / expected![step]! - 1));
    expect(Math.max(...differences)).toBeGreaterThan(0);
    // bf16 rounds weights alike in both runs: measured 2.4e-3 with moments of 16 bits, 4.5e-3 with gradients
    // of 16 bits, without growth over the steps
    expect(Math.max(...differences)).toBeLessThan(1e-2);
  },
);
