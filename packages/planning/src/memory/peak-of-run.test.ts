import { describe, expect, it } from 'vitest';
import { configureTinyGpt, layout } from '../../test/support/tiny-gpt.js';
import { dryRun, dryRunModel } from '../dry-run/dry-run.js';
import { peakBytesOfRun } from './peak-of-run.js';

describe('peakBytesOfRun', () => {
  it('is the largest peak of the dry run, with activations', async () => {
    const configuration = configureTinyGpt(layout({ p: 2 }), 2);
    const { ranks, model } = await dryRun(configuration);
    const peaks = ranks.map(({ peakBytes }) => peakBytes);
    expect(new Set(peaks).size).toBeGreaterThan(1);
    expect(await peakBytesOfRun(configuration, model)).toBe(Math.max(...peaks));
  });

  it('grows with the micro-batch, which weights and optimizer state do not', async () => {
    const predictPeak = async (microBatchSize: number) => {
      const configuration = configureTinyGpt({ training: { microBatchSize, globalBatchSize: 8 } });
      const { model } = await dryRunModel(configuration);
      return await peakBytesOfRun(configuration, model);
    };
    expect(await predictPeak(8)).toBeGreaterThan(1.5 * (await predictPeak(1)));
  });
});
