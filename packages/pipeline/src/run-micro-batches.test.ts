import { Tensor } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { runMicroBatches, type Stage, type StageLoss } from './index.js';

/** A stage that writes down what is asked of it. */
function recordingStage(log: string[]): Stage<string> {
  const loss = (microBatch: number): StageLoss => {
    const make = (value: number): Tensor => Tensor.from([value], { shape: [1], dtype: 'float32' });
    const [losses, weights] = [make(microBatch + 1), make(0.5)];
    return {
      losses,
      weights,
      dispose: () => {
        log.push(`dispose ${microBatch}`);
        losses.dispose();
        weights.dispose();
      },
    };
  };
  return {
    isFirst: true,
    isLast: true,
    boundaryShape: () => [],
    forward: ({ microBatch, batch, lossFactor }) => {
      log.push(`F${microBatch} ${batch} ${lossFactor}`);
      return undefined;
    },
    backwardInput: ({ microBatch, weights }) => {
      log.push(`B${microBatch}${weights ? '+W' : ''}`);
      return undefined;
    },
    backwardWeight: ({ microBatch }) => void log.push(`W${microBatch}`),
    takeLoss: loss,
    evaluate: () => undefined,
    abandon: () => void log.push('abandon'),
  };
}

describe('runMicroBatches', () => {
  it('finishes one micro-batch before the next, so that the activations of only one are alive', () => {
    const log: string[] = [];
    const losses: number[] = [];
    runMicroBatches({
      stage: recordingStage(log),
      batches: ['a', 'b'],
      lossFactor: 0.25,
      beforeLastBackward: () => void log.push('last'),
      onLoss: ({ losses: values, weights }) => losses.push(values.item() * weights.item()),
    });
    expect(log).toEqual(['F0 a 0.25', 'B0+W', 'dispose 0', 'F1 b 0.25', 'last', 'B1+W', 'dispose 1']);
    expect(losses).toEqual([0.5, 1]);
  });
});
