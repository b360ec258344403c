import { type Device, DeviceMark } from '@mtl/kernels';

/** The times of a device in a stretch of its work, in milliseconds. */
export interface DeviceTimes {
  readonly computeMs: number;
  /** The time in which the device waited for communication. */
  readonly waitedMs: number;
}

/**
 * Tells how long a device waits for communication. Operations over NCCL make the device wait and not the
 * host, so that no clock of the host shows it: while something is measured, each such wait has a mark of the
 * device before it and one after it. Otherwise there are none, and it costs nothing.
 */
export class DeviceWaits {
  readonly #device: Device;
  #marks: DeviceMark[] | undefined;

  constructor(device: Device) {
    this.#device = device;
  }

  /** @internal Enqueues a wait of the device. */
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
   * Measures what `task` enqueues. Must be read, or disposed of. Where the task throws, its marks are left:
   * to dispose of them would wait for a device that perhaps waits for ranks which learn of the error only
   * then.
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

/** Times of a stretch of a device's work, which is perhaps still under way. */
class MeasuredTimes {
  readonly #marks: readonly DeviceMark[];

  /** @param marks where it begins, before and after each wait, and where it ends; owned from here on */
  constructor(marks: readonly DeviceMark[]) {
    this.#marks = marks;
  }

  /** Waits for the end of the stretch. Once: it disposes of the marks. */
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
