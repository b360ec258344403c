import { describe, expect, it } from 'vitest';
import { SpikeGuard, type SpikeGuardOptions } from './spike-guard.js';
import type { MeasuredStep } from './trainer-extension.js';

const window = 8;

const makeGuard = (change: Partial<SpikeGuardOptions> = {}): SpikeGuard =>
  new SpikeGuard({ policy: 'skip', window, factor: 10, limit: 2, ...change });

const step = (iteration: number, change: Partial<MeasuredStep> = {}): MeasuredStep => ({
  iteration,
  // falls, and varies by a few percent
  loss: 4 - 0.01 * iteration + 0.05 * (iteration % 3),
  gradientNorm: 1 + 0.1 * (iteration % 4),
  consumedSamples: 4 * iteration - 4,
  globalBatchSize: 4,
  ...change,
});

/** Returns a guard that has judged `numSteps` ordinary steps. */
function guardAfter(numSteps: number, change: Partial<SpikeGuardOptions> = {}): SpikeGuard {
  const guard = makeGuard(change);
  for (let iteration = 1; iteration <= numSteps; iteration++) {
    expect(guard.judge(step(iteration))).toEqual({ action: 'update', events: [] });
  }
  return guard;
}

describe('SpikeGuard', () => {
  it('lets ordinary steps pass, and those before the window is full', () => {
    guardAfter(100);
    expect(guardAfter(window - 1).judge(step(window, { loss: 1000 })).action).toBe('update');
  });

  it.each([
    ['loss', { loss: 6 }],
    ['gradient norm', { gradientNorm: 10 }],
    ['loss', { loss: Number.POSITIVE_INFINITY }],
    ['gradient norm', { gradientNorm: Number.NaN }],
  ] as const)('notices a %s that is out of bounds: %o', (quantity, change) => {
    for (const [policy, action] of [
      ['ignore', 'update'],
      ['report', 'update'],
      ['skip', 'skip'],
      ['roll-back', 'roll-back'],
    ] as const) {
      const { action: found, events } = guardAfter(20, { policy }).judge(step(21, change));
      expect(found).toBe(action);
      expect(events.length).toBe(policy === 'ignore' ? 0 : 1);
      if (policy !== 'ignore') expect(events[0]!.text).toContain(`spike at iteration 21: ${quantity} `);
    }
  });

  it('names the documents of the samples, and the limits', () => {
    const listSources = () => [{ source: 'corpus', documents: Array.from({ length: 11 }, (_, n) => n + 3) }];
    const [event] = guardAfter(20, { listSources }).judge(step(21, { loss: 9 })).events;
    expect(event!.text).toMatch(
      /loss 9 \(median of the 8 steps before 3\.\d+, limit 4\.\d+\); skipped; its samples 80 to 83 are of corpus: documents 3, 4, 5, 6, 7, 8, 9, 10 and 3 more$/,
    );
    expect(event).toMatchObject({
      type: 'spike',
      iteration: 21,
      fields: { action: 'skip', lm_loss: 9, first_sample: 80, num_samples: 4, sources: listSources() },
    });
  });

  it('calls the loss a total where there is another one of the language model', () => {
    const judgeStep = (options: Parameters<typeof guardAfter>[1]) =>
      guardAfter(20, options).judge(step(21, { loss: 9 })).events[0]!.fields!;
    const { lm_loss_limit: limit, lm_loss_median: median } = judgeStep({});
    const fields = judgeStep({ nameOfTotal: 'total_loss' });
    expect(limit).toBeGreaterThan(median as number);
    expect(fields).toMatchObject({ total_loss: 9, total_loss_limit: limit, total_loss_median: median });
    expect(Object.keys(fields).join()).not.toContain('lm_loss');
  });

  it.each([
    ['loss', { loss: 4.5 }],
    ['gradient norm', { gradientNorm: 6 }],
  ] as const)('notices a %s in the third step in a row, at a quarter of the distance', (quantity, change) => {
    const guard = guardAfter(20, { policy: 'report', factor: quantity === 'loss' ? 20 : 10 });
    const row = [21, 22, 23].map((iteration) => guard.judge(step(iteration, change)).events);
    expect(row.map(({ length }) => length)).toEqual([0, 0, 1]);
    expect(row[2]![0]!.text).toContain(`spike at iteration 23: ${quantity} `);
  });

  it('gets used to what lasts', () => {
    const guard = guardAfter(20, { limit: 100 });
    const actions = Array.from({ length: window }, (_, n) => guard.judge(step(21 + n, { loss: 20 })).action);
    expect(actions[0]).toBe('skip');
    expect(actions.at(-1)).toBe('update');
  });

  it('ends the run at one spike more than the limit, unless a window is between them', () => {
    const spike = { loss: Number.NaN };
    const often = guardAfter(20);
    for (const iteration of [21, 22]) often.judge(step(iteration, spike));
    expect(() => often.judge(step(23, spike))).toThrow(
      expect.objectContaining({ code: 'MTL_LOSS_SPIKE', exitCode: 1 }),
    );
    const rarely = guardAfter(20);
    for (let iteration = 21; iteration < 80; iteration++)
      rarely.judge(step(iteration, iteration % 10 === 0 ? spike : {}));
  });

  it('skips what is above a threshold, from the first step on and without a limit', () => {
    for (const policy of ['ignore', 'report', 'skip'] as const) {
      const guard = makeGuard({ policy, gradientNormSkipThreshold: 3 });
      const verdicts = [3, 3.01, 3.01, 3.01, 3.01, 2].map((gradientNorm, n) =>
        guard.judge(step(n + 1, { gradientNorm })),
      );
      expect(verdicts.map(({ action }) => action)).toEqual([
        'update',
        ...Array.from({ length: 4 }, () => 'skip'),
        'update',
      ]);
      expect(verdicts[1]!.events[0]).toMatchObject({
        text: expect.stringContaining('gradient norm 3.01 above --grad-norm-skip-threshold 3; skipped'),
        fields: { grad_norm: 3.01, grad_norm_limit: 3 },
      });
    }
  });

  it('makes the steps of a guard wait only where it may refuse them', () => {
    const waiting = [
      makeGuard({ policy: 'report' }),
      makeGuard({ policy: 'report', gradientNormSkipThreshold: 1 }),
      makeGuard({ policy: 'skip' }),
      makeGuard({ policy: 'roll-back' }),
    ].map(({ decides }) => decides);
    expect(waiting).toEqual([false, true, true, true]);
  });

  it('decides the same after its state was saved as JSON and loaded', () => {
    const sequence = Array.from({ length: 60 }, (_, n) => step(n + 1, n % 11 === 10 ? { loss: 7 } : {}));
    const straight = makeGuard({ limit: 100 });
    const expected = sequence.map((each) => straight.judge(each).action);
    expect(new Set(expected)).toEqual(new Set(['update', 'skip']));
    let resumed = makeGuard({ limit: 100 });
    const actions = sequence.map((each, index) => {
      if (index % 7 === 0) {
        const state = JSON.parse(JSON.stringify(resumed.state)) as unknown;
        resumed = makeGuard({ limit: 100 });
        resumed.restore(state, 'a checkpoint');
      }
      return resumed.judge(each).action;
    });
    expect(actions).toEqual(expected);
    expect(resumed.state).toEqual(straight.state);
    expect(() => resumed.restore({ ...straight.state, losses: [null] }, 'a checkpoint')).toThrow(
      expect.objectContaining({ code: 'MTL_CHECKPOINT_STATE' }),
    );
  });
});
