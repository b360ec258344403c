import { describe, expect, it } from 'vitest';
import { type TimedStep, typicalSteps } from './operation-clock.js';

const step = (seconds: number): TimedStep => ({
  seconds,
  samples: new Map(),
  passSeconds: [],
  stepSeconds: 0,
});

describe('typicalSteps', () => {
  it.each([
    [[5], [5]],
    [
      [9, 1, 5],
      [1, 5],
    ],
    [
      [8, 1, 2, 3, 4, 90],
      [2, 3, 4],
    ],
    [
      [1, 2, 3, 4, 5, 6, 7, 8],
      [3, 4, 5, 6],
    ],
  ])('of steps of %j seconds are those of %j', (all, typical) => {
    expect(typicalSteps(all.map(step)).map(({ seconds }) => seconds)).toEqual(typical);
  });
});
