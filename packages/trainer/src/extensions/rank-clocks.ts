import type { DeviceTimes } from '@mtl/comm/internal';

/**
 * Measures how long a rank computes in a step. The time for which the rank waits in communication is
 * excluded.
 */
export interface RankClock {
  /** Starts to measure. */
  resume(): void;
  /**
   * Stops measuring until `resume`. Callers call `pause` before work whose duration differs between ranks,
   * such as an evaluation, and `resume` after it.
   */
  pause(): void;
  /**
   * Runs `passes`, which enqueue the work of a step, and measures them. Absent if the clock can measure
   * without this function.
   */
  passes?(iteration: number, passes: () => void): void;
  /** Marks the end of a step. All ranks must call this method for the same steps. */
  step(iteration: number): void;
  /** True if a measurement is available for `take`. The value is the same on all ranks. */
  readonly hasTimes: boolean;
  /** Returns the times per step, from all measurements since the last call. */
  take(): DeviceTimes;
}

interface HostClockOptions {
  /** Returns how many seconds this rank has waited in communication since its start. */
  readonly waitedSeconds: () => number;
  /** The clock, in milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/**
 * The clock of a rank that computes on CPUs, where the host waits for communication. It reads times and
 * counters only in `resume` and `pause`, so steps have no overhead.
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

/**
 * The times of work that the device may not have finished. After the work has finished, `read` returns the
 * times.
 */
interface LateTimes {
  read(): DeviceTimes;
}

interface DeviceClockOptions {
  /**
   * Measures on the device how long the operations of the world's groups make the passes wait (see
   * `DeviceWaits`).
   */
  readonly waits: { measure(task: () => void): LateTimes };
}

/**
 * The clock of a rank whose GPU waits for communication while the host continues. Between two reports, it
 * measures the passes of one step with device marks, and reads the marks after the step.
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

  /** Does nothing, because only `passes` measures, and a step that is left out runs no passes. */
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
