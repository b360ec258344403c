import { type Device, hasValues, type PendingRead, Tensor } from '@mtl/kernels';

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

  /** As `read`, without waiting: on a device with marks (`supportsMarks`). This object may be disposed of. */
  startRead(): readonly PendingRead<'float64'>[] {
    return this.#taken((numbers) => numbers.startRead<'float64'>());
  }

  /** Of each buffer, what `body` makes of the places that were taken. */
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
