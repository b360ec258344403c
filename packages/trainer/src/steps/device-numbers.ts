import { type Device, DeviceMark, type PendingRead, Tensor } from '@mtl/kernels';
import { hasValues } from '@mtl/kernels/internal';

/**
 * Numbers that kernels leave on the device, read all at once: one wait for the device, however many there
 * are, as long as `capacity` is enough for them. On devices without values all of them are 0:
 * a step runs as if everything were finite.
 */
export class DeviceNumbers {
  readonly #device: Device;
  readonly #capacity: number;
  readonly #buffers: Tensor[] = [];
  readonly #places: Tensor[] = [];

  constructor({ device, capacity }: { readonly device: Device; readonly capacity: number }) {
    this.#device = device;
    this.#capacity = capacity;
  }

  /** The place of the next number, [1] float64: it stays this object's, and must be written before `read`. */
  next(): Tensor {
    const offset = this.#places.length % this.#capacity;
    if (offset === 0) {
      const shape = [this.#capacity];
      this.#buffers.push(Tensor.empty({ shape, dtype: 'float64', device: this.#device }));
    }
    const place = this.#buffers.at(-1)!.view({ offset, shape: [1] });
    this.#places.push(place);
    return place;
  }

  /** All numbers whose places were taken, in that order; waits for what writes them. */
  read(): readonly number[] {
    if (!hasValues(this.#device)) return this.#places.map(() => 0);
    return this.#taken((numbers) => numbers.toArray()).flat();
  }

  /**
   * Begins `read` without waiting: on a device with marks (`supportsMarks`). This object may be disposed of.
   */
  startRead(): readonly PendingRead<'float64'>[] {
    return this.#taken((numbers) => numbers.startRead<'float64'>());
  }

  /** Calls `body` with the places of each buffer that were taken, and returns its results. */
  #taken<Result>(body: (numbers: Tensor) => Result): Result[] {
    return this.#buffers.map((buffer, index) => {
      const numTaken = Math.min(this.#capacity, this.#places.length - index * this.#capacity);
      using taken = buffer.view({ shape: [numTaken] });
      return body(taken);
    });
  }

  [Symbol.dispose](): void {
    for (const tensor of [...this.#places, ...this.#buffers]) tensor.dispose();
  }
}

interface LateNumbersOptions {
  readonly device: Device;
  /** The time when the host began with the step, by `performance.now()`. */
  readonly startMs: number;
  /** The numbers of the step before, if the device may still be working on it. */
  readonly earlier: LateNumbers | undefined;
}

/**
 * Numbers of a step that the host reads while the device works on the next one, and how long the step took:
 * from the end of the step before to its own end, by the clock of the device. The host learns of both ends
 * late, at moments that say nothing about the step.
 */
export class LateNumbers {
  /**
   * The begin of a step for which the device has nothing to do yet: the time of the host before, and a mark.
   */
  readonly #begin: { readonly hostMs: number; readonly mark: DeviceMark } | undefined;
  #earlier: LateNumbers | undefined;
  #reads: readonly PendingRead<'float64'>[] = [];
  /** This step, and the next one, for which the end of this one is the beginning. */
  #numHolders = 1;
  #isDisposed = false;

  /** Begins the measurement, before anything of the step is enqueued. */
  constructor({ device, startMs, earlier }: LateNumbersOptions) {
    this.#earlier = earlier;
    if (earlier === undefined) {
      this.#begin = { mark: new DeviceMark(device), hostMs: performance.now() - startMs };
    } else {
      earlier.#numHolders += 1;
    }
  }

  /** @param reads of the step, when all of it is enqueued; owned from here on */
  end(reads: readonly PendingRead<'float64'>[]): void {
    this.#reads = reads;
  }

  /** Waits for this step, not for the next one. Throws errors of `PendingRead.read`. */
  read(): readonly number[] {
    return this.#reads.flatMap((read) => [...read.read()]);
  }

  /** Waits for the step, and returns how long it took. */
  milliseconds(): number {
    const end = this.#reads.at(-1)!;
    if (this.#begin === undefined) return end.millisecondsSince(this.#earlier!.#reads.at(-1)!);
    return this.#begin.hostMs + end.millisecondsSince(this.#begin.mark);
  }

  /** Waits for the step. A second call does nothing. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#begin?.mark.dispose();
    if (this.#earlier !== undefined) this.#earlier.#release();
    this.#earlier = undefined;
    this.#release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #release(): void {
    this.#numHolders -= 1;
    if (this.#numHolders > 0) return;
    for (const read of this.#reads) read.dispose();
  }
}
