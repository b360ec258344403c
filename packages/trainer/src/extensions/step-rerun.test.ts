import { describe, expect, it } from 'vitest';
import { StepRerun } from './step-rerun.js';
import type { ComputedStep } from './trainer-extension.js';

const computed = (value: number): ComputedStep => ({
  loss: value,
  gradientNorm: 2 * value,
  own: [value, -value],
});

/**
 * Checks a step on rank 0 of two. The step's computations have the given results, and rank 1 reports a match.
 */
async function check(
  results: readonly ComputedStep[],
  options: { mode?: 'validate_results' | 'report_stats'; isSuspicious?: boolean } = {},
) {
  const { mode = 'validate_results', isSuspicious = true } = options;
  const [first, ...others] = results;
  let numAgain = 0;
  const found = await new StepRerun({ mode, hosts: ['a', 'b'] }).repeat({
    iteration: 7,
    first: first!,
    isSuspicious,
    again: async () => others[numAgain++]!,
    ranks: { ofEveryRank: (code) => [code, code % 2] },
  });
  return { ...found, numAgain };
}

describe('StepRerun', () => {
  it('leaves steps alone that are not suspicious', async () => {
    const { step, events, numAgain } = await check([computed(1)], { isSuspicious: false });
    expect([step, events, numAgain]).toEqual([computed(1), [], 0]);
  });

  it('blames the data where the results are the same, also where they are not finite', async () => {
    for (const value of [3, Number.NaN]) {
      const { events, numAgain } = await check([computed(value), computed(value)]);
      expect(numAgain).toBe(1);
      expect(events).toEqual([
        expect.objectContaining({
          type: 'rerun',
          iteration: 7,
          fields: { result: 'reproducible', ranks: [] },
        }),
      ]);
    }
  });

  it('blames the machine where they differ, names the rank and goes on with the results that came twice', async () => {
    for (const [first, second, wrong] of [
      [9, 1, 9],
      [1, 9, 9],
    ] as const) {
      const { step, events, numAgain } = await check([computed(first), computed(second), computed(1)]);
      expect(step).toEqual(computed(1));
      expect(numAgain).toBe(2);
      expect(events[0]).toMatchObject({
        text: expect.stringContaining('other results, of rank 0 (host a): a fault of a machine'),
        fields: { result: 'transient', ranks: [0], hosts: ['a'], lm_loss: 1, wrong_lm_loss: wrong },
      });
    }
  });

  it('names no rank where what they communicate is wrong', async () => {
    const garbled = { ...computed(1), gradientNorm: 99 };
    const { events } = await check([garbled, computed(1), computed(1)]);
    expect(events[0]!.fields).toMatchObject({ ranks: [], wrong_grad_norm: 99, grad_norm: 2 });
  });

  it('ends the run where no result comes twice', async () => {
    await expect(check([computed(1), computed(2), computed(3)])).rejects.toMatchObject({
      code: 'MTL_NOT_REPRODUCIBLE',
      message: 'iteration 7 was computed three times with three results, of rank 0 (host a)',
    });
  });

  it('computes every step twice for statistics, and reports only differences', async () => {
    const mode = 'report_stats';
    const same = await check([computed(1), computed(1)], { mode, isSuspicious: false });
    expect([same.numAgain, same.events]).toEqual([1, []]);
    const other = await check([computed(2), computed(1), computed(1)], { mode, isSuspicious: false });
    expect(other.events.map(({ fields }) => fields.result)).toEqual(['transient']);
  });
});
