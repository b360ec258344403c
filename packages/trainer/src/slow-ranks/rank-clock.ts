import type { DeviceTimes } from '@mtl/comm/internal';

/** Measures how long a rank computes in a step, without the time that it waits in communication. */
export interface RankClock {
  /** Measures from here on. */
  resume(): void;
  /** Leaves out what follows, such as an evaluation, which not all ranks spend alike. */
  pause(): void;
  /** Runs `passes`, which enqueue the work of a step, and measures them. Default: it measures otherwise. */
  passes?(iteration: number, passes: () => void): void;
  /** A step is over: on all ranks alike. */
  step(iteration: number): void;
  /** Whether there is something to take: on all ranks alike. */
  readonly hasTimes: boolean;
  /** Of a step, from what was measured since the last call. */
  take(): DeviceTimes;
}
