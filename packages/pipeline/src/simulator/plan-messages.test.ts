import { describe, expect, it } from 'vitest';
import { gpipe, type PipelineSchedule } from '../schedules.js';
import { waitingTensors } from './plan-messages.js';

describe('waitingTensors', () => {
  it('counts what has been posted for a later action', () => {
    // rank 0 first awaits the gradient of micro-batch 0, then the gradient of micro-batch 1; on rank 1, the
    // input of F1 arrives during F0
    expect(waitingTensors(gpipe({ numStages: 2, numMicroBatches: 2 }))).toEqual([
      [1, 1, 1, 0],
      [1, 0, 0, 0],
    ]);
  });

  it('counts what a chunk has made for another one of its rank, until that uses it', () => {
    const schedule: PipelineSchedule = {
      name: 'both chunks on one rank',
      numMicroBatches: 2,
      placement: [0, 0],
      actions: [
        [
          { kind: 'F', chunk: 0, microBatch: 0 },
          { kind: 'F', chunk: 0, microBatch: 1 },
          { kind: 'F', chunk: 1, microBatch: 0 },
          { kind: 'F', chunk: 1, microBatch: 1 },
          { kind: 'I', chunk: 1, microBatch: 1 },
          { kind: 'W', chunk: 1, microBatch: 1 },
          { kind: 'B', chunk: 0, microBatch: 1 },
          { kind: 'B', chunk: 1, microBatch: 0 },
          { kind: 'B', chunk: 0, microBatch: 0 },
        ],
      ],
    };
    expect(waitingTensors(schedule)).toEqual([[0, 1, 1, 0, 0, 1, 0, 0, 0]]);
  });
});
