import { describe, expect, it } from 'vitest';
import { exampleStep } from '../../test/support/example-step.js';
import type { StepMetrics } from './training-reports.js';
import { TrainingSummary } from './training-summary.js';

const step = (iteration: number, change: Partial<StepMetrics> = {}): StepMetrics =>
  exampleStep(iteration, {
    tokensPerSecond: 4000 + iteration,
    modelTflops: iteration / 8,
    peakBytes: 3 * 2 ** 29,
    ...change,
  });

describe('TrainingSummary', () => {
  it('names what was reached, how fast, by which formula, and where it is', () => {
    const summary = new TrainingSummary({ flopsFormula: '72 B S L H^2 (...)' });
    for (const iteration of [1, 2, 3, 4]) summary.step(step(iteration, { skipped: iteration === 2 }));
    summary.validation({ iteration: 2, loss: 1.5 });
    summary.validation({ iteration: 4, loss: 2 });
    expect(summary.text({ checkpointPath: 'out/iter_0000004' })).toBe(
      [
        '  steps            4, 1 skipped',
        '  tokens           16,384 (64 samples)',
        '  lm loss          1.0000 (first step of this run 4.0000)',
        '  validation loss  2.0000 (perplexity 7.389; best 1.5000 at step 2)',
        '  speed            4,003 tokens/s, 0.313 model TFLOP/s (medians)',
        '  model FLOPs      72 B S L H^2 (...)',
        '  training time    4.0 s in steps',
        '  peak memory      1.5 GiB of tensors, on the rank with the most (Node.js and its libraries not counted)',
        '  checkpoint       out/iter_0000004',
      ].join('\n'),
    );
  });

  it('reports that a run was resumed, and leaves out missing values', () => {
    const summary = new TrainingSummary({ flopsFormula: 'f' });
    for (const iteration of [101, 102, 103]) summary.step(step(iteration, { peakBytes: 2 ** 20 }));
    const text = summary.text();
    expect(text).toContain('103, resumed at 100');
    expect(text).toContain('4,102 tokens/s');
    expect(text).toContain('1.0 MiB');
    expect(text).not.toMatch(/validation|checkpoint|skipped/);
  });

  it('has every loss and their total', () => {
    const summary = new TrainingSummary({ flopsFormula: 'f' });
    const makeStep = (iteration: number, masked: number) =>
      step(iteration, { loss: masked, otherLosses: { sop_loss: 0.5, total_loss: masked + 0.5 } });
    summary.step(makeStep(1, 8));
    summary.step(makeStep(2, 6));
    summary.validation({ iteration: 2, loss: 6.25, otherLosses: { sop_loss: 0.5, total_loss: 6.75 } });
    const text = summary.text();
    expect(text).toMatch(/^ {2}lm loss +6\.0000 \(first step of this run 8\.0000\)$/m);
    expect(text).toMatch(/^ {2}sop loss +0\.5000 \(first step of this run 0\.5000\)$/m);
    expect(text).toMatch(/^ {2}total loss +6\.5000 \(first step of this run 8\.5000\)$/m);
    expect(text).toMatch(
      /^ {2}validation loss +6\.2500 \(sop loss 0\.5000, total loss 6\.7500; the best at step 2\)$/m,
    );
  });

  it('calls the last validation loss the best when it is', () => {
    const summary = new TrainingSummary({ flopsFormula: 'f' });
    summary.step(step(1));
    summary.validation({ iteration: 1, loss: 3 });
    expect(summary.text()).toContain('the best at step 1)');
  });

  it('has a text for a run without steps', () => {
    expect(new TrainingSummary({ flopsFormula: 'f' }).text()).toBe('no step was trained');
  });
});
