import { Tensor, type TensorOptions } from '@mtl/kernels';
import type { Upload } from '../stage.js';

/**
 * Tensors on a device that stay where they are while host values are copied into them again and again: by the order of uploads.
 * Those that were kept stay for good; others make way when an upload has another shape or dtype than the one before.
 */
export class FixedTensors {
  #kept: readonly Tensor[] = [];
  #others: (Tensor | undefined)[] = [];
  #used: Tensor[] = [];

  /** Begins from the first tensor; each call of what it returns copies into the next one, and gives a view of it. */
  upload(): Upload {
    this.#used = [];
    return (values, options) => {
      const tensor = this.#tensorAt(this.#used.length, options);
      tensor.write(values);
      this.#used.push(tensor);
      return tensor.view({ shape: tensor.shape });
    };
  }

  /** Shapes and dtypes of the last uploads, in their order: where they are those of kept tensors, so are the tensors. */
  get shapes(): string {
    return this.#used.map(({ dtype, shape }) => `${dtype} [${shape.join(', ')}]`).join(', ');
  }

  /** Keeps the tensors of the last uploads, which is done once. */
  keep(): void {
    this.#kept = this.#used;
    this.#others = [];
  }

  dispose(): void {
    for (const tensor of [...this.#kept, ...this.#others]) tensor?.dispose();
    this.#kept = [];
    this.#others = [];
  }

  #tensorAt(position: number, options: TensorOptions): Tensor {
    const fitting = [this.#kept[position], this.#others[position]].find((tensor) => fits(tensor, options));
    if (fitting !== undefined) return fitting;
    this.#others[position]?.dispose();
    const tensor = Tensor.empty(options);
    this.#others[position] = tensor;
    return tensor;
  }
}

function fits(tensor: Tensor | undefined, { shape, dtype }: TensorOptions): boolean {
  return tensor?.dtype === dtype && `${tensor.shape}` === `${shape}`;
}
