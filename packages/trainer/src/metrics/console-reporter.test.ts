import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exampleStep } from '../../test/support/example-step.js';
import {
  ConsoleReporter,
  formatProgressBar,
  formatStepLine,
  formatValidationLine,
} from './console-reporter.js';

const interval = {
  iteration: 10,
  trainIterations: 100,
  consumedSamples: 160,
  globalBatchSize: 16,
  stepMs: 1234.56,
  learningRate: 1.5e-4,
  losses: { 'lm loss': 4.1234567 },
  lossScale: 65536,
  gradNorm: 1.23456,
  numSkipped: 0,
  numNan: 0,
  tokensPerSecond: 3317.7,
  modelTflops: 0.21049,
};

/** A stream that records written text. */
function recorder(terminal: { readonly isTTY?: boolean; readonly columns?: number } = {}) {
  const chunks: string[] = [];
  return { ...terminal, write: (text: string) => chunks.push(text), text: () => chunks.join('') };
}

describe('formatStepLine', () => {
  it("has Megatron's fields and digits", () => {
    expect(formatStepLine(interval)).toBe(
      ' iteration       10/     100 | consumed samples:          160 | elapsed time per iteration (ms): 1234.6 |' +
        ' learning rate: 1.500000E-04 | global batch size:    16 | lm loss: 4.123457E+00 | loss scale: 65536.0 |' +
        ' grad norm: 1.235 | number of skipped iterations:   0 | number of nan iterations:   0 |' +
        ' tokens/s: 3318 | model TFLOP/s: 0.210 |',
    );
  });

  it('has a second learning rate where the embeddings have one', () => {
    expect(formatStepLine({ ...interval, decoupledLearningRate: 5e-4 })).toContain(
      '| learning rate: 1.500000E-04 | decoupled learning rate: 5.000000E-04 | global batch size:',
    );
  });

  it('writes what is not finite as Python does', () => {
    const line = formatStepLine({ ...interval, losses: { 'lm loss': Number.NaN }, gradNorm: Infinity });
    expect(line).toContain('lm loss: nan |');
    expect(line).toContain('grad norm: inf |');
  });

  it('gives learning rate 0 an exponent of two digits', () => {
    expect(formatStepLine({ ...interval, learningRate: 0 })).toContain('learning rate: 0.000000E+00 |');
    expect(formatStepLine({ ...interval, learningRate: 1e-100 })).toContain('learning rate: 1.000000E-100 |');
  });
});

describe('formatProgressBar', () => {
  const state = {
    iteration: 25,
    trainIterations: 100,
    loss: 3.2,
    tokensPerSecond: 2210,
    remainingMs: 185_000,
  };

  it('shows the share done, loss, speed and remaining time', () => {
    expect(formatProgressBar(state, 120)).toBe(
      `${'█'.repeat(10)}${'░'.repeat(30)}  25% 25/100  loss 3.2000  2,210 tokens/s  3m 05s left`,
    );
  });

  it('never fills the last column, where a terminal would wrap', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.nat(200), (width, iteration) => {
        expect(formatProgressBar({ ...state, iteration }, width).length).toBeLessThan(width);
      }),
    );
  });
});

describe('ConsoleReporter', () => {
  it('prints plain lines only where there is no terminal', () => {
    const stream = recorder();
    const reporter = new ConsoleReporter({ stream, trainIterations: 5, logInterval: 2 });
    for (const iteration of [1, 2, 3, 4, 5]) reporter.step(exampleStep(iteration));
    reporter.validation({ iteration: 5, loss: 2 });
    reporter.message('saved');
    reporter.close();
    const lines = stream.text().trimEnd().split('\n');
    expect(lines.map((line) => /iteration\s+(\d+)/.exec(line)?.[1] ?? line)).toEqual([
      '2',
      '4',
      '5',
      '5',
      'saved',
    ]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what must not be there.
    expect(stream.text()).not.toMatch(/[\u001b\r]/);
    expect(lines[3]).toBe(
      ' validation loss at iteration 5 | lm loss value: 2.000000E+00 | lm loss PPL: 7.389056E+00 |',
    );
  });

  it('prints short lines where no script reads them, unless it is verbose', () => {
    const printed = (isVerbose: boolean): string => {
      const stream = recorder();
      const options = { stream, trainIterations: 100, logInterval: 1, areLinesShort: true, isVerbose };
      const reporter = new ConsoleReporter(options);
      reporter.step(
        exampleStep(5, { loss: 6.73709, gradNorm: 0.9, stepMs: 1137.4, tokensPerSecond: 14895.2 }),
      );
      reporter.step(exampleStep(6, { skipped: true, gradNorm: Infinity, stepMs: 80, tokensPerSecond: 100 }));
      reporter.validation({ iteration: 6, loss: 2 });
      return stream.text();
    };
    expect(printed(false)).toBe(
      [
        'iteration   5/100 | lm loss 6.7371 | grad norm 0.900 | 1,137 ms | 14,895 tokens/s',
        'iteration   6/100 | grad norm Infinity | 80 ms | 100 tokens/s | 1 skipped',
        'validation at iteration 6 | lm loss 2.0000 | perplexity 7.39\n',
      ].join('\n'),
    );
    expect(printed(true)).toContain(' iteration        5/     100 | consumed samples:');
  });

  it('prints each of several losses on held-out data', () => {
    const otherLosses = { sop_loss: 0.5, total_loss: 2.5 };
    const result = { iteration: 5, loss: 2, otherLosses, tokenLosses: ['lm_loss'] };
    // the perplexity is e^loss for a mean over tokens; sums and losses of samples have no perplexity
    expect(formatValidationLine(result)).toBe(
      ' validation loss at iteration 5 | lm loss value: 2.000000E+00' +
        ' | lm loss PPL: 7.389056E+00 | sop loss value: 5.000000E-01 | total loss value: 2.500000E+00 |',
    );
  });

  it('averages over the interval, without the losses of skipped steps', () => {
    const stream = recorder();
    const reporter = new ConsoleReporter({ stream, trainIterations: 10, logInterval: 3 });
    reporter.step(exampleStep(1, { loss: 2, stepMs: 1000, tokensPerSecond: 100 }));
    reporter.step(exampleStep(2, { loss: 900, stepMs: 1000, tokensPerSecond: 100, skipped: true }));
    reporter.step(exampleStep(3, { loss: 4, stepMs: 4000, tokensPerSecond: 25 }));
    expect(stream.text()).toContain('lm loss: 3.000000E+00 |');
    expect(stream.text()).toContain('number of skipped iterations:   1 |');
    expect(stream.text()).toContain('elapsed time per iteration (ms): 2000.0 |');
    // 300 tokens in 6 seconds are 50 tokens/s, not the mean of 100, 100 and 25
    expect(stream.text()).toContain('tokens/s: 50 |');
  });

  it('has no loss when every step was skipped', () => {
    const stream = recorder();
    const reporter = new ConsoleReporter({ stream, trainIterations: 10, logInterval: 1 });
    reporter.step(exampleStep(1, { skipped: true, gradNorm: Infinity }));
    expect(stream.text()).not.toContain('lm loss');
    expect(stream.text()).toContain('grad norm: inf | number of skipped iterations:   1 |');
  });

  it("prints BERT's losses by their names", () => {
    const stream = recorder();
    const reporter = new ConsoleReporter({ stream, trainIterations: 1, logInterval: 1 });
    reporter.step(exampleStep(1, { loss: 2, otherLosses: { sop_loss: 0.5, total_loss: 2.5 } }));
    expect(stream.text()).toContain(
      '| lm loss: 2.000000E+00 | sop loss: 5.000000E-01 | total loss: 2.500000E+00 |',
    );
  });

  it('draws one line of progress over itself on a terminal, ten times a second at most', () => {
    const stream = recorder({ isTTY: true, columns: 120 });
    let time = 0;
    const now = () => time;
    const reporter = new ConsoleReporter({
      stream,
      trainIterations: 100,
      logInterval: 5,
      noColor: true,
      now,
    });
    for (let iteration = 1; iteration <= 40; iteration++) {
      time += 10;
      reporter.step(exampleStep(iteration));
      if (iteration === 20) reporter.validation({ iteration, loss: 2.5 });
    }
    expect(stream.text().match(/left/g)).toHaveLength(4);
    expect(stream.text()).not.toContain('\n');
    // 69 steps of a second at step 31
    expect(stream.text()).toMatch(
      / 31% 31\/100 {2}loss -26\.0000 {2}validation 2\.5000 {2}4,096 tokens\/s {2}1m 09s left$/,
    );
    reporter.message('saved');
    expect(stream.text()).toContain('\r\u001b[Jsaved\n');
    expect(stream.text()).toMatch(/saved\n.*left$/);
    reporter.close();
    reporter.close();
    expect(stream.text().endsWith('left\r\u001b[J')).toBe(true);
    const length = stream.text().length;
    stream.write('end\n');
    expect(stream.text().slice(length)).toBe('end\n');
  });

  it('prints the lines above it, too, where asked to', () => {
    const stream = recorder({ isTTY: true, columns: 120 });
    const isVerbose = true;
    const reporter = new ConsoleReporter({
      stream,
      isVerbose,
      trainIterations: 9,
      logInterval: 1,
      noColor: true,
    });
    reporter.step(exampleStep(1));
    reporter.validation({ iteration: 1, loss: 2 });
    expect(stream.text()).toMatch(/ iteration {8}1\/ .*\n.*validation loss at iteration 1.*\n/s);
  });

  it('colours on a terminal, unless NO_COLOR is set', () => {
    const outputs = [false, true].map((noColor) => {
      const stream = recorder({ isTTY: true });
      const reporter = new ConsoleReporter({ stream, trainIterations: 9, logInterval: 9, noColor });
      reporter.step(exampleStep(1));
      return stream.text();
    });
    expect(outputs[0]).toContain('\u001b[36m');
    expect(outputs[1]).not.toContain('\u001b[36m');
  });
});
