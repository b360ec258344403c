import { describe, expect, it } from 'vitest';
import { risingValidation } from './metrics-records.js';

/** Makes evaluations after every 100 steps. */
const evaluations = (losses: readonly number[]) =>
  losses.map((loss, index) => ({ iteration: 100 * (index + 1), loss }));

describe('risingValidation', () => {
  it('says since when, from which loss and to which, once a loss has risen for five evaluations', () => {
    const losses = [3, 2, 1.5, 1.52, 1.55, 1.6, 1.64];
    expect(risingValidation(evaluations(losses))).toBeUndefined();
    expect(risingValidation(evaluations([...losses, 1.7]))).toMatch(
      /^the validation loss has been rising since step 300, from 1\.5000 to 1\.7000 at step 800: the model overfits/,
    );
  });

  it('leaves out losses that are not finite', () => {
    expect(risingValidation(evaluations([3, Number.NaN]))).toBeUndefined();
    expect(risingValidation(evaluations([1.5, Number.NaN, 1.6, 1.7, 1.8, 1.9, 2]))).toContain(
      'since step 100',
    );
  });

  it.each([
    ['falls', [3, 2.5, 2.2, 2, 1.9, 1.8, 1.7]],
    ['is level', [3, 1.5, 1.503, 1.502, 1.504, 1.503, 1.505]],
    ['falls again after a rise', [3, 1.5, 1.9, 1.85, 1.8, 1.7, 1.6, 1.55]],
    [
      'has risen for less than a tenth of the steps',
      [...Array.from({ length: 60 }, (_, n) => 10 - n / 10), 5, 6, 7, 8, 9],
    ],
    ['was never computed', []],
  ])('says nothing of a loss that %s', (_, losses) => {
    expect(risingValidation(evaluations(losses))).toBeUndefined();
  });
});
