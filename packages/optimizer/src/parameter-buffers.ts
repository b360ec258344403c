import { initializeParameter, type Parameter } from '@mtl/autograd';
import { cast, type Device, type DType, Tensor } from '@mtl/kernels';

/** Where a parameter lies in the flat buffers, in elements. */
export interface ParameterRange {
  readonly parameter: Parameter;
  readonly start: number;
  readonly end: number;
}

// 64 elements: 256 bytes of float32, so that every view is aligned for vectors, matrix products and GPU accesses
const alignment = 64;

/**
 * One flat buffer for each kind of state, with every parameter a view into it: the optimizer runs over all of them in
 * one pass, and gradients can be reduced in contiguous buckets. Order: as the parameters come.
 *
 *   master      float32: the values that are trained
 *   model       the compute dtype, rounded from master; the same memory as master in float32
 *   gradients   float32 main gradients
 */
export class ParameterBuffers {
  readonly ranges: readonly ParameterRange[];
  readonly size: number;
  readonly master: Tensor;
  readonly model: Tensor;
  readonly gradients: Tensor;
  readonly #views: Tensor[] = [];

  constructor(parameters: readonly Parameter[], { device, dtype }: { device: Device; dtype: DType }) {
    let start = 0;
    this.ranges = parameters.map((parameter) => {
      const range = { parameter, start, end: start + parameter.size };
      start = Math.ceil(range.end / alignment) * alignment;
      return range;
    });
    this.size = start;
    const shape = [this.size];
    this.master = Tensor.zeros({ shape, dtype: 'float32', device });
    this.model = dtype === 'float32' ? this.master.view({ shape }) : Tensor.zeros({ shape, dtype, device });
    this.gradients = Tensor.zeros({ shape, dtype: 'float32', device });
    for (const range of this.ranges) {
      range.parameter.assignData(this.#view(this.model, range));
      range.parameter.assignMainGradient(this.#view(this.gradients, range));
    }
  }

  /** Writes the initial values of all parameters for a seed. */
  initialize(seed: number): void {
    for (const range of this.ranges) {
      const target = this.viewOf(this.master, range);
      initializeParameter(range.parameter, target, seed);
      target.dispose();
    }
    this.refreshModel();
  }

  /** Rounds the master values into the model's dtype: after loading a checkpoint or weights. */
  refreshModel(): void {
    if (this.model.dtype !== 'float32') cast({ output: this.model, input: this.master });
  }

  /** A view of one parameter's part of a flat buffer, in the parameter's shape: the caller's to dispose of. */
  viewOf(buffer: Tensor, { parameter, start }: ParameterRange): Tensor {
    return buffer.view({ offset: start, shape: parameter.shape });
  }

  dispose(): void {
    for (const tensor of [...this.#views, this.master, this.model, this.gradients]) tensor.dispose();
  }

  #view(buffer: Tensor, range: ParameterRange): Tensor {
    const view = this.viewOf(buffer, range);
    this.#views.push(view);
    return view;
  }
}
