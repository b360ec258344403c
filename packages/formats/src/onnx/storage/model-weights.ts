import { dtypeBytes, type LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError, UsageError } from '@mtl/errors';
import { countElements } from '@mtl/kernels';
import { decodeFloats } from '../../huggingface/float-bytes.js';
import { writableDtype } from '../../huggingface/mapped-weights.js';

/** How many values are read and converted at a time by default. */
const usualValuesAtOnce = 2 ** 22;

/** A parameter, or the first values of a parameter. */
export interface WeightTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /**
   * Yields the values in row-major order, in blocks of complete rows of `rowLength` values. Each block is
   * valid until the next one is requested.
   */
  read(rowLength: number): AsyncGenerator<Float32Array>;
}

/** A model's parameters, by name. A parameter's values are read in blocks of rows. */
export class ModelWeights {
  readonly #tensors: ReadonlyMap<string, LogicalTensor>;
  readonly #used = new Set<string>();
  readonly #valuesAtOnce: number;

  constructor(tensors: readonly LogicalTensor[], { valuesAtOnce = usualValuesAtOnce } = {}) {
    this.#tensors = new Map(tensors.map((tensor) => [tensor.name, tensor]));
    this.#valuesAtOnce = valuesAtOnce;
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  /**
   * Returns a parameter with the given shape. If the shape has fewer values than the parameter, the result
   * contains only the parameter's first values.
   *
   * @throws UsageError MTL_HUGGING_FACE_TENSOR for a parameter that is missing or too small
   */
  take(name: string, shape: readonly number[]): WeightTensor {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined || countElements(tensor.globalShape) < countElements(shape)) {
      throw new UsageError(
        'MTL_HUGGING_FACE_TENSOR',
        tensor === undefined ? `the tensor ${name} is missing` : `${name} is [${tensor.globalShape.join()}]`,
        { expected: `the model's tensors, and among them ${name} [${shape.join()}]` },
      );
    }
    this.#used.add(name);
    return {
      name,
      shape,
      read: (rowLength) => this.#read(tensor, { length: countElements(shape), rowLength }),
    };
  }

  /**
   * Checks that every parameter has been used. A graph that lacks a parameter would compute something else.
   *
   * @throws UsageError MTL_HUGGING_FACE_TENSOR
   */
  expectAllTaken(): void {
    const left = [...this.#tensors.keys()].find((name) => !this.#used.has(name));
    if (left === undefined) return;
    throw new UsageError('MTL_HUGGING_FACE_TENSOR', `the tensor ${left} is no parameter of the model`, {
      expected: 'the tensors of the model alone',
    });
  }

  async *#read(
    tensor: LogicalTensor,
    { length, rowLength }: { readonly length: number; readonly rowLength: number },
  ): AsyncGenerator<Float32Array> {
    const step = Math.max(1, Math.floor(this.#valuesAtOnce / rowLength)) * rowLength;
    const dtype = writableDtype(tensor);
    const isWhole = tensor.readRange === undefined || length <= step;
    const whole = isWhole ? decodeFloats(await tensor.read(), dtype) : undefined;
    const bytes = whole === undefined ? new Uint8Array(step * dtypeBytes[dtype]) : undefined;
    for (let start = 0; start < length; start += step) {
      const end = Math.min(start + step, length);
      let values = whole?.subarray(start, end);
      if (values === undefined) {
        const part = bytes!.subarray(0, (end - start) * dtypeBytes[dtype]);
        await tensor.readRange!({ start, end }, part);
        values = decodeFloats(part, dtype);
      }
      checkFinite(values, tensor.name);
      yield values;
    }
  }
}

/** @throws CheckpointError MTL_NOT_FINITE */
function checkFinite(values: Float32Array, name: string): void {
  for (let index = 0; index < values.length; index++) {
    if (Number.isFinite(values[index])) continue;
    throw new CheckpointError('MTL_NOT_FINITE', `the model to save: ${name} has the value ${values[index]}`, {
      expected: 'finite weights',
      remedy: 'take other weights',
      exitCode: 2,
    });
  }
}
