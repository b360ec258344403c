import { describe, expect, it } from 'vitest';
import { listLayouts } from './calibrate.js';

describe('listLayouts', () => {
  it.each([
    [1, ['1x1']],
    [2, ['1x1', '1x2', '2x1']],
    [3, ['1x1', '1x3', '2x1', '3x1']],
    [16, ['1x1', '1x16', '2x8', '16x1']],
  ])('fills %i cores with processes x threads %j', (numCores, expected) => {
    expect(listLayouts(numCores).map((each) => `${each.numProcesses}x${each.numThreads}`)).toEqual(expected);
  });
});
