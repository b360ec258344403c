import { type Device, Tensor } from '@mtl/kernels';

/**
 * Numbers that kernels leave on the device, read all at once: one wait for the device, however many there
 * are. On device `meta` nothing is computed and all of them are 0: a step runs as if everything were finite.
 */
export class DeviceNumbers {
  readonly #buffer: Tensor;
  readonly #places: Tensor[] = [];

  constructor({ device, capacity }: { readonly device: Device; readonly capacity: number }) {
    this.#buffer = Tensor.empty({ shape: [capacity], dtype: 'float64', device });
  }

  /** The place of the next number, [1] float64: it stays this object's, and must be written before `read`. */
  next(): Tensor {
    const place = this.#buffer.view({ offset: this.#places.length, shape: [1] });
    this.#places.push(place);
    return place;
  }

  /** All numbers whose places were taken, in that order; waits for what writes them. */
  read(): readonly number[] {
    if (this.#places.length === 0) return [];
    if (this.#buffer.device === 'meta') return this.#places.map(() => 0);
    using taken = this.#buffer.view({ shape: [this.#places.length] });
    return taken.toArray();
  }

  [Symbol.dispose](): void {
    for (const tensor of [...this.#places, this.#buffer]) tensor.dispose();
  }
}
