import { add, Tensor } from '@mtl/kernels';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { OperationClock, type TimedStep, typicalSteps } from './operation-clock.js';

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
  ])('of steps of %j seconds come from %j', (all, typical) => {
    expect(typicalSteps(all.map(step)).map(({ seconds }) => seconds)).toEqual(typical);
  });
});

describe('OperationClock', () => {
  afterEach(() => void vi.useRealTimers());

  it('counts what the host does before an operation, but not the communication that it plays', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const clock = new OperationClock({ numWarmUpSteps: 0 });
    using sum = Tensor.from([1, 2, 3, 4], { shape: [4], dtype: 'float32' });
    const addAfter = (...milliseconds: readonly [host: number, communication: number]): void => {
      vi.advanceTimersByTime(milliseconds[1]);
      if (milliseconds[1] > 0) clock.onOperation();
      vi.advanceTimersByTime(milliseconds[0]);
      add({ output: sum, left: sum, right: sum });
    };
    clock.beginStep(1);
    clock.span({ kind: 'F', microBatch: 0, chunk: 0 }, () => {
      addAfter(2, 0);
      addAfter(3, 100);
      vi.advanceTimersByTime(5);
    });
    clock.endStep();
    const [step] = clock.steps;
    expect([...step!.samples.values()].map(({ seconds }) => seconds)).toEqual([[0.002, 0.003]]);
    expect(step!.passSeconds).toEqual([0.005]);
  });
});
