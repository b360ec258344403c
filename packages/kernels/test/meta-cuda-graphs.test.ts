import { afterAll, describe, expect } from 'vitest';
import { memoryStatistics, numLiveTensors } from '../src/index.js';
import { graphRules } from './support/graph-rules.js';

// Device cuda runs the same tests (test/cuda/graph-memory.test.ts): plans on meta-cuda match the real device.
describe('graphs on device meta-cuda', () => {
  afterAll(() => {
    expect(numLiveTensors()).toBe(0);
    expect(memoryStatistics('meta-cuda').numAllocations).toBe(0);
  });

  graphRules('meta-cuda');
});
