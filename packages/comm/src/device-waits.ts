import { type Device, DeviceMark } from '@mtl/kernels';

/** The durations of a stretch of a device's work, in milliseconds. */
export interface DeviceTimes {
  readonly computeMs: number;
  /** The time in which the device waited for communication. */
  readonly waitedMs: number;
}

/**
 * Measures how long a device waits for communication. NCCL operations make the device wait and not the host,
 * so no clock of the host shows the wait. During a measurement each such wait is enclosed by two device
 * marks; without a measurement there are no marks and no cost.
 */
export class DeviceWaits {
  readonly #device: Device;
  #marks: DeviceMark[] | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * @internal Runs `enqueue`, which makes the device wait; during a measurement with a mark before and after
   *   it.
   */
  wait(enqueue: () => void): void {
    const marks = this.#marks;
    if (marks === undefined) {
      enqueue();
      return;
    }
    marks.push(new DeviceMark(this.#device));
    enqueue();
    marks.push(new DeviceMark(this.#device));
  }

  /**
   * Measures the work that `task` enqueues. The caller must read the result or dispose it. If the task
   * throws, its marks are leaked: disposing the marks would wait for a device that may itself wait for ranks,
   * and the ranks learn of the error only afterwards.
   */
  measure(task: () => void): MeasuredTimes {
    const marks = [new DeviceMark(this.#device)];
    this.#marks = marks;
    try {
      task();
    } finally {
      this.#marks = undefined;
    }
    return new MeasuredTimes([...marks, new DeviceMark(this.#device)]);
  }
}

/** The durations of a stretch of a device's work that may still be running. */
class MeasuredTimes {
  readonly #marks: readonly DeviceMark[];

  /** @param marks at the start, before and after each wait, and at the end; owned from here on */
  constructor(marks: readonly DeviceMark[]) {
    this.#marks = marks;
  }

  /** Waits for the end of the stretch and returns its times. Call it once: it disposes of the marks. */
  read(): DeviceTimes {
    const [begin, ...rest] = this.#marks;
    const end = rest.pop()!;
    let waitedMs = 0;
    for (let at = 0; at < rest.length; at += 2) waitedMs += rest[at + 1]!.millisecondsSince(rest[at]!);
    const times = { computeMs: end.millisecondsSince(begin!) - waitedMs, waitedMs };
    this.dispose();
    return times;
  }

  /** Disposes of the marks; a second call does nothing. */
  dispose(): void {
    for (const mark of this.#marks) mark.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
