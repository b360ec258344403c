import { expect, it } from 'vitest';
import { DeviceClock } from './rank-clocks.js';

/**
 * Returns a device clock, and a list to which it adds the passes that it measured. Each measured time is one
 * millisecond longer than the previous time.
 */
function newClock() {
  const measured: number[] = [];
  const ran: number[] = [];
  let numRead = 0;
  const clock = new DeviceClock({
    waits: {
      measure: (task) => {
        task();
        measured.push(ran.at(-1)!);
        const computeMs = 10 + measured.length;
        return {
          read: () => {
            numRead += 1;
            return { computeMs, waitedMs: 1 };
          },
        };
      },
    },
  });
  const passes = (iteration: number): void => clock.passes(iteration, () => void ran.push(iteration));
  return { clock, passes, measured, ran, numRead: () => numRead };
}

it('measures the passes of one step between two reports', () => {
  const { clock, passes, measured, ran } = newClock();
  expect(clock.hasTimes).toBe(false);
  for (const iteration of [1, 2, 3]) {
    passes(iteration);
    clock.step(iteration);
    expect(clock.hasTimes).toBe(true);
  }
  expect(clock.take()).toEqual({ computeMs: 11, waitedMs: 1 });
  expect(clock.hasTimes).toBe(false);
  passes(4);
  passes(5);
  clock.step(4);
  expect(clock.take()).toEqual({ computeMs: 12, waitedMs: 1 });
  expect(measured).toEqual([1, 4]);
  expect(ran).toEqual([1, 2, 3, 4, 5]);
});

it('reads times when their step is over, not while the device may still work on it', () => {
  const { clock, passes, numRead } = newClock();
  passes(8);
  clock.step(7);
  expect([clock.hasTimes, numRead()]).toEqual([false, 0]);
  passes(9);
  clock.step(8);
  expect([clock.hasTimes, numRead()]).toEqual([true, 1]);
});
