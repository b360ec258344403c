import { cast, Tensor, type TensorOptions } from '@mtl/kernels';
import type { Upload } from '../stage.js';

/**
 * Tensors on a device that stay where they are while values are copied into them again and again: by the
 * order of uploads and copies, their shapes and dtypes. Those that were kept stay for good; others make way
 * when an upload has another shape or dtype than the one before.
 */
export class FixedTensors {
  readonly #kept = new Map<string, Tensor>();
  #others: (Tensor | undefined)[] = [];
  #used: Tensor[] = [];

  /**
   * Begins from the first tensor; each call of what it returns copies into the next one, and gives a view of
   * it.
   */
  upload(): Upload {
    this.#used = [];
    return (values, options) => this.#next(options, (tensor) => tensor.write(values));
  }

  /** Copies what is on the device already into the next tensor, and gives a view of it. */
  copy(input: Tensor): Tensor {
    const { shape, dtype, device } = input;
    return this.#next({ shape, dtype, device }, (output) => cast({ output, input }));
  }

  /**
   * Shapes and dtypes of what was copied since `upload`, in that order: where they are those of kept tensors,
   * so are the tensors.
   */
  get shapes(): string {
    return this.#used.map(({ dtype, shape }) => `${dtype} [${shape.join(', ')}]`).join(', ');
  }

  /** Keeps the tensors that were copied into since `upload`. */
  keep(): void {
    this.#used.forEach((tensor, position) => {
      this.#kept.set(keyOf(position, tensor), tensor);
      if (this.#others[position] === tensor) this.#others[position] = undefined;
    });
  }

  dispose(): void {
    for (const tensor of [...this.#kept.values(), ...this.#others]) tensor?.dispose();
    this.#kept.clear();
    this.#others = [];
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #next(options: Required<TensorOptions>, fill: (tensor: Tensor) => void): Tensor {
    const tensor = this.#tensorAt(this.#used.length, options);
    fill(tensor);
    this.#used.push(tensor);
    return tensor.view({ shape: tensor.shape });
  }

  #tensorAt(position: number, options: Required<TensorOptions>): Tensor {
    const key = keyOf(position, options);
    const other = this.#others[position];
    const fitting = this.#kept.get(key) ?? (other && keyOf(position, other) === key ? other : undefined);
    if (fitting !== undefined) return fitting;
    other?.dispose();
    const tensor = Tensor.empty(options);
    this.#others[position] = tensor;
    return tensor;
  }
}

function keyOf(position: number, { shape, dtype }: Pick<Tensor, 'shape' | 'dtype'>): string {
  return `${position} ${dtype} ${shape.join(' ')}`;
}
