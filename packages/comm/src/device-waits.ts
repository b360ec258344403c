import { type Device, DeviceMark } from '@mtl/kernels';

/** How long a device computed and waited during the measured work, in milliseconds. */
export interface DeviceTimes {
  readonly computeMs: number;
  /** How long the device waited for communication. */
  readonly waitedMs: number;
}

/**
 * Measures how long a device waits for communication. NCCL operations block the device and not the host, so
 * the host's clock cannot measure the wait. Therefore, during a measurement, a device mark is placed before
 * and after each wait. Without a measurement, there are no marks and no cost.
 */
export class DeviceWaits {
  readonly #device: Device;
  #marks: DeviceMark[] | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * @internal Runs `enqueue`, which makes the device wait. During a measurement, sets a mark before and after
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
   * Measures the work that `task` enqueues. The caller must read the result or dispose of it. If `task`
   * throws, its marks are never freed, because freeing them would wait for the device. The device may itself
   * be waiting for other ranks, which receive the error only later.
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

/** The times of enqueued work that may still be running. */
class MeasuredTimes {
  readonly #marks: readonly DeviceMark[];

  /**
   * @param marks the marks at the start, before and after each wait, and at the end, which this object then
   *   owns
   */
  constructor(marks: readonly DeviceMark[]) {
    this.#marks = marks;
  }

  /**
   * Waits for the end of the work and returns its times. Must be called only once, because it disposes of the
   * marks.
   */
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
