import type { PrecisionState } from '@mtl/autograd';
import { type Device, hasValues, sumRows, Tensor } from '@mtl/kernels';

/**
 * How often the experts of a layer would be chosen by their scores alone, over all ranks and a whole step:
 * that of the step before enters `global_aux_loss`, since that of a step is known only when its last
 * micro-batch has been routed. Checkpoints keep it.
 */
export class ScoredLoad implements PrecisionState {
  readonly name = 'load';
  readonly #numExperts: number;
  readonly #device: Device;
  #tensor: Tensor | undefined;
  #counts: Tensor | undefined;

  constructor({ numExperts, device }: { readonly numExperts: number; readonly device: Device }) {
    this.#numExperts = numExperts;
    this.#device = device;
  }

  /** float32 [E]: the load of the step before, relative to an even one; at first 1. */
  get tensor(): Tensor {
    const shape = [this.#numExperts];
    this.#tensor ??= Tensor.from(new Float32Array(this.#numExperts).fill(1), {
      shape,
      dtype: 'float32',
      device: this.#device,
    });
    return this.#tensor;
  }

  /** Adds the choices of a pass, float32 [N, E] of N sequences, of this rank's rows. */
  add(counts: Tensor): void {
    const options = { shape: [this.#numExperts], dtype: 'float32', device: this.#device } as const;
    this.#counts ??= Tensor.zeros(options);
    sumRows({ output: this.#counts, input: counts, accumulate: true });
  }

  /** The choices of this rank since the last call. */
  take(): readonly number[] {
    if (this.#counts === undefined || !hasValues(this.#device)) {
      return new Array<number>(this.#numExperts).fill(0);
    }
    const counts = this.#counts.toArray();
    this.#counts.zero();
    return counts;
  }

  /** Takes the choices of all ranks in a step as the load for the next one. */
  set(counts: readonly number[]): void {
    const sum = counts.reduce((total, count) => total + count, 0);
    if (sum === 0) return;
    this.tensor.write(Float32Array.from(counts, (count) => (count * counts.length) / sum));
  }

  dispose(): void {
    this.#tensor?.dispose();
    this.#counts?.dispose();
    this.#tensor = undefined;
    this.#counts = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
