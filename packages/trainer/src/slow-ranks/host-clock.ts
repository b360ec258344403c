import type { DeviceTimes } from '@mtl/comm/internal';
import type { RankClock } from './rank-clock.js';

export interface HostClockOptions {
  /** Seconds that this rank has waited in communication since its start. */
  readonly waitedSeconds: () => number;
  /** Milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/**
 * The clock of a rank that computes on CPUs, whose host waits for communication. It reads clocks and counters
 * where it is resumed and paused alone, so that steps cost nothing.
 */
export class HostClock implements RankClock {
  readonly #waitedSeconds: () => number;
  readonly #now: () => number;
  #mark: { readonly ms: number; readonly waitedSeconds: number } | undefined;
  #numSteps = 0;
  #computeMs = 0;
  #waitedMs = 0;

  constructor({ waitedSeconds, now = () => performance.now() }: HostClockOptions) {
    this.#waitedSeconds = waitedSeconds;
    this.#now = now;
  }

  resume(): void {
    this.#mark = { ms: this.#now(), waitedSeconds: this.#waitedSeconds() };
  }

  pause(): void {
    if (this.#mark === undefined) return;
    const waitedMs = 1000 * (this.#waitedSeconds() - this.#mark.waitedSeconds);
    this.#waitedMs += waitedMs;
    this.#computeMs += this.#now() - this.#mark.ms - waitedMs;
    this.#mark = undefined;
  }

  step(): void {
    this.#numSteps += 1;
  }

  get hasTimes(): boolean {
    return this.#numSteps > 0;
  }

  take(): DeviceTimes {
    const times = { computeMs: this.#computeMs / this.#numSteps, waitedMs: this.#waitedMs / this.#numSteps };
    this.#numSteps = 0;
    this.#computeMs = 0;
    this.#waitedMs = 0;
    return times;
  }
}
