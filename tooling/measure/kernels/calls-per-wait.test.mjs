import { describe, expect, it } from 'vitest';
import { callsPerWait } from './calls-per-wait.ts';

describe('the number of calls enqueued before the host waits for the GPU', () => {
  it('are many of what is short, and one of what is longer than any wait', () => {
    expect([20e-6, 200e-6, 1e-3, 4e-3, 20e-3, 2].map(callsPerWait)).toEqual([50, 50, 10, 3, 1, 1]);
  });
});
