import { add, Tensor } from '@mtl/kernels';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { DeviceOperationClock } from './device-operation-clock.js';

/**
 * A simulated device. `works` enqueues work that takes the given number of milliseconds. Without work, the
 * device is idle.
 */
const device = vi.hoisted(() => ({ nowMs: 0, enqueued: 0, works: (_ms: number): void => {} }));
device.works = (ms) => {
  // work starts when earlier work is done, but not before the host has enqueued it
  device.nowMs = Math.max(device.nowMs, performance.now()) + ms;
};

vi.mock('@mtl/kernels', async (original) => ({
  ...(await original<typeof import('@mtl/kernels')>()),
  DeviceMark: class {
    readonly at = Math.max(device.nowMs, performance.now());
    millisecondsSince(earlier: { readonly at: number }): number {
      return this.at - earlier.at;
    }
    dispose(): void {}
    [Symbol.dispose](): void {}
  },
  synchronize: () => vi.advanceTimersByTime(Math.max(0, device.nowMs - performance.now())),
}));

describe('DeviceOperationClock', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  it('times operations on the device, also those that the host enqueues more slowly', () => {
    // setting this tensor to zero is the work that keeps the device busy
    vi.spyOn(Tensor.prototype, 'zero').mockImplementation(() => device.works(1));
    using clock = new DeviceOperationClock({ device: 'cpu', numWarmUpSteps: 1, numPlainSteps: 2 });
    using sum = Tensor.from([1, 2, 3, 4], { shape: [4], dtype: 'float32' });
    const addTaking = (ms: number): void => {
      vi.advanceTimersByTime(2); // host time before the operation
      device.works(ms);
      add({ output: sum, left: sum, right: sum });
    };
    for (let step = 1; step <= 4; step++) {
      clock.beginStep(step);
      clock.span({ kind: 'F', microBatch: 0, chunk: 0 }, () => {
        addTaking(0.5);
        addTaking(3);
        device.works(50); // simulated communication
        clock.onOperation();
        addTaking(0.25);
      });
      vi.advanceTimersByTime(7); // outside of passes
      clock.endStep();
    }
    const [step, ...more] = clock.steps;
    expect(more).toEqual([]);
    const [seconds] = [...step!.samples.values()].map((each) => each.seconds);
    expect(seconds).toHaveLength(3);
    for (const [index, expected] of [0.0005, 0.003, 0.00025].entries()) {
      expect(seconds![index]).toBeCloseTo(expected, 9);
    }
    expect(clock.hostSecondsPerOperation).toBeCloseTo(0.002, 9);
    expect(step!.seconds).toBeCloseTo(0.00375, 9);
  });

  it('gives the time of a step beyond its passes; each pass takes what device or host takes', () => {
    vi.spyOn(Tensor.prototype, 'zero').mockImplementation(() => device.works(1));
    using clock = new DeviceOperationClock({ device: 'cpu', numWarmUpSteps: 1, numPlainSteps: 1 });
    using sum = Tensor.from([1, 2], { shape: [2], dtype: 'float32' });
    const run = (kind: 'F' | 'B', ms: number): void =>
      clock.span({ kind, microBatch: 0, chunk: 0 }, () => {
        vi.advanceTimersByTime(2);
        device.works(ms);
        add({ output: sum, left: sum, right: sum });
      });
    for (let step = 1; step <= 3; step++) {
      clock.beginStep(step);
      run('F', 1); // the host takes longer
      run('B', 6); // the device
      vi.advanceTimersByTime(9);
      clock.endStep();
    }
    // the step ends on the host at 13 ms; F takes 2 ms, and B takes 6 ms on the device, from 4 to 10 ms
    expect(clock.steps[0]!.stepSeconds).toBeCloseTo(0.013 - (0.002 + 0.006), 9);
  });
});
