import type { DeviceTimes } from '@mtl/comm/internal';

/** Measures how long a rank computes in a step, without the time that it waits in communication. */
export interface RankClock {
  /** Starts to measure. */
  resume(): void;
  /** Stops measuring, for work that takes different times on different ranks, such as an evaluation. */
  pause(): void;
  /**
   * Runs `passes`, which enqueue the work of a step, and measures them. Default: the clock measures
   * otherwise.
   */
  passes?(iteration: number, passes: () => void): void;
  /** Marks the end of a step; all ranks call it alike. */
  step(iteration: number): void;
  /** True if there are times to take; equal on all ranks. */
  readonly hasTimes: boolean;
  /** Returns the times of a step, from all measurements since the last call. */
  take(): DeviceTimes;
}

interface HostClockOptions {
  /** Seconds that this rank has waited in communication since its start. */
  readonly waitedSeconds: () => number;
  /** The clock, in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/**
 * The clock of a rank that computes on CPUs: its host waits for communication. The clock reads times and
 * counters only in `resume` and `pause`, so that steps cost nothing.
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

/** Times of a stretch of work, which can be read when the device has finished it. */
interface LateTimes {
  read(): DeviceTimes;
}

interface DeviceClockOptions {
  /** `DeviceWaits` of the world; the passes wait for its operations. */
  readonly waits: { measure(task: () => void): LateTimes };
}

/**
 * The clock of a rank whose GPU waits for communication while the host continues. Between two reports it
 * measures the passes of one step with device marks, and reads the marks when the step is over.
 */
export class DeviceClock implements RankClock {
  readonly #waits: DeviceClockOptions['waits'];
  #isAsked = true;
  #measured: { readonly iteration: number; readonly times: LateTimes } | undefined;
  #times: DeviceTimes | undefined;

  constructor({ waits }: DeviceClockOptions) {
    this.#waits = waits;
  }

  /** Runs `passes`, which enqueue the work of a step, and measures them if a measurement is due. */
  passes(iteration: number, passes: () => void): void {
    if (!this.#isAsked) {
      passes();
      return;
    }
    this.#isAsked = false;
    this.#measured = { iteration, times: this.#waits.measure(passes) };
  }

  /** Steps that are left out run no passes. */
  resume(): void {}

  pause(): void {}

  step(iteration: number): void {
    if (this.#measured === undefined || this.#measured.iteration > iteration) return;
    this.#times = this.#measured.times.read();
    this.#measured = undefined;
  }

  get hasTimes(): boolean {
    return this.#times !== undefined;
  }

  take(): DeviceTimes {
    const times = this.#times!;
    this.#times = undefined;
    this.#isAsked = true;
    return times;
  }
}
