import type { DeviceTimes } from '@mtl/comm/internal';
import type { RankClock } from './rank-clock.js';

/** Of a stretch of work: what can be read when the device is through with it. */
interface LateTimes {
  read(): DeviceTimes;
}

export interface DeviceClockOptions {
  /** `DeviceWaits` of the world whose operations the passes wait for. */
  readonly waits: { measure(task: () => void): LateTimes };
}

/**
 * The clock of a rank whose GPU waits for communication while the host goes on: it measures the passes of one
 * step between two reports, by marks of the device, and reads them when the step is over.
 */
export class DeviceClock implements RankClock {
  readonly #waits: DeviceClockOptions['waits'];
  #isAsked = true;
  #measured: { readonly iteration: number; readonly times: LateTimes } | undefined;
  #times: DeviceTimes | undefined;

  constructor({ waits }: DeviceClockOptions) {
    this.#waits = waits;
  }

  /** Runs `passes`, which enqueue the work of a step, and measures them if that is due. */
  passes(iteration: number, passes: () => void): void {
    if (!this.#isAsked) {
      passes();
      return;
    }
    this.#isAsked = false;
    this.#measured = { iteration, times: this.#waits.measure(passes) };
  }

  /** Steps that are left out begin no passes. */
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
