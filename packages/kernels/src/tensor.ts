import { UsageError } from '@mtl/errors';
import { describeOperand } from './checked-operation.js';
import { type Device, deviceNumber } from './device.js';
import { PendingRead } from './device-mark.js';
import {
  bytesPerElement,
  checkLength,
  checkTypedArray,
  type DType,
  dtypeNumber,
  newTypedArray,
  type TypedArray,
  type TypedArrayOf,
} from './dtype.js';
import { addon, callNative } from './native/addon.js';
import { contiguousStrides, reshapedStrides } from './strides.js';
import { adoptIntoScope } from './tensor-lifetimes.js';

/** The properties of a new tensor. */
export interface TensorOptions {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly device?: Device;
}

/** Returns the number of elements in a tensor of the given shape. */
export function countElements(shape: readonly number[]): number {
  let product = 1;
  for (const size of shape) product *= size;
  return product;
}

/**
 * Writes a shape to `callNumbers` for the next native call, and returns its number of dimensions. The native
 * call rejects a shape with too many dimensions.
 */
function passShape(shape: readonly number[]): number {
  const { callNumbers } = addon();
  if (!Array.isArray(shape) || shape.some((size) => typeof size !== 'number')) {
    const given = Array.isArray(shape) ? shape.map(describeOperand).join(', ') : describeOperand(shape);
    throw new UsageError('MTL_ARGUMENT', `a shape is ${given}`, { expected: 'an array of numbers' });
  }
  for (let dim = 0; dim < shape.length; dim++) callNumbers[dim] = shape[dim]!;
  return shape.length;
}

/**
 * A typed array on a device with an explicit lifetime: its memory is kept until `dispose()`, or until the end
 * of the enclosing `tidy`. Views share memory, which is freed when the last view is disposed of. All tensors
 * are contiguous, except views returned by `strided`.
 */
export class Tensor {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly device: Device;
  readonly size: number;
  #handle: number;
  /** Undefined if the tensor is contiguous. */
  readonly #strides: readonly number[] | undefined;

  private constructor(
    handle: number,
    { shape, dtype, device }: Required<TensorOptions>,
    strides?: readonly number[],
  ) {
    this.#handle = handle;
    this.#strides = strides;
    this.shape = shape;
    this.dtype = dtype;
    this.device = device;
    this.size = countElements(shape);
    adoptIntoScope(this);
  }

  /** Returns a new tensor with undefined contents. */
  static empty(options: TensorOptions): Tensor {
    if (typeof options !== 'object' || options === null) {
      throw new UsageError('MTL_ARGUMENT', `the options of a tensor are ${describeOperand(options)}`, {
        expected: '{ shape, dtype, device }',
      });
    }
    const { shape, dtype, device = 'cpu' } = options;
    const [onDevice, ofType] = [deviceNumber(device), dtypeNumber(dtype)];
    const rank = passShape(shape);
    const handle = callNative(() => addon().createTensor(onDevice, ofType, rank));
    return new Tensor(handle, { shape: [...shape], dtype, device });
  }

  /** Returns a new tensor of zeros. */
  static zeros(options: TensorOptions): Tensor {
    const tensor = Tensor.empty(options);
    tensor.zero();
    return tensor;
  }

  /**
   * Returns a new tensor with values from the host: a typed array of the tensor's dtype (bits for 16-bit
   * floats), or numbers, which are converted.
   *
   * @throws UsageError `MTL_SHAPE` for a number of values that does not match the shape, `MTL_ARGUMENT` for
   *   anything but an array of numbers, `MTL_DTYPE` for a typed array whose type does not match the dtype
   */
  static from(values: TypedArray | readonly number[], options: TensorOptions): Tensor {
    const tensor = Tensor.empty(options);
    try {
      tensor.write(ArrayBuffer.isView(values) ? values : convert(values, tensor));
    } catch (error) {
      tensor.dispose();
      throw error;
    }
    return tensor;
  }

  /** The native handle, which operations use. Throws if the tensor has been disposed of. */
  get handle(): number {
    if (this.#handle === 0) {
      throw new UsageError(
        'MTL_DISPOSED_TENSOR',
        `a tensor of shape [${this.shape.join(', ')}] was used after dispose()`,
      );
    }
    return this.#handle;
  }

  get isDisposed(): boolean {
    return this.#handle === 0;
  }

  get bytes(): number {
    return this.size * bytesPerElement(this.dtype);
  }

  /** For each dimension, the distance in memory between neighbours, in elements. */
  get strides(): readonly number[] {
    return this.#strides ?? contiguousStrides(this.shape);
  }

  /** Returns the size of dimension `index`, counted from the end when negative. */
  dim(index: number): number {
    const size = this.shape.at(index);
    if (size === undefined) {
      throw new UsageError('MTL_SHAPE', `dimension ${index} of a tensor of shape [${this.shape.join(', ')}]`);
    }
    return size;
  }

  /**
   * Returns a view of the elements from `offset` on, with the given shape. Both tensors share memory.
   *
   * @throws KernelError `MTL_SHAPE` for a strided view, and if the shape exceeds the tensor's elements
   */
  view({ offset = 0, shape }: { offset?: number; shape: readonly number[] }): Tensor {
    const rank = passShape(shape);
    const handle = callNative(() => addon().createView(this.handle, offset, rank));
    return new Tensor(handle, { shape: [...shape], dtype: this.dtype, device: this.device });
  }

  /**
   * Returns a strided view. Its element at index (i, j, ...) is element `offset + i * strides[0] + j *
   * strides[1] + ...` of this tensor's memory, counted from this tensor's first element. Attention, RMSNorm,
   * the rotary embedding, `cast` and `scale` accept strided views; all other operations throw `MTL_SHAPE`.
   */
  strided(options: { offset?: number; shape: readonly number[]; strides: readonly number[] }): Tensor {
    const { offset = 0, shape, strides } = options;
    if (!Array.isArray(strides) || strides.length !== shape.length) {
      const given = Array.isArray(strides) ? `${strides.length}` : describeOperand(strides);
      throw new UsageError('MTL_SHAPE', `the strides of a view are ${given}`, {
        expected: `one for each of the ${shape.length} dimensions`,
      });
    }
    passShape(shape);
    const { callNumbers } = addon();
    for (let dim = 0; dim < strides.length; dim++) callNumbers[shape.length + dim] = strides[dim]!;
    const handle = callNative(() => addon().createStridedView(this.handle, offset, shape.length));
    const { dtype, device } = this;
    return new Tensor(handle, { shape: [...shape], dtype, device }, [...strides]);
  }

  /**
   * Returns a tensor that has the same elements but the given shape. Both tensors share memory.
   *
   * @throws UsageError `MTL_SHAPE` if the shape has a different number of elements, or if this is a strided
   *   view and the distances between its elements do not allow the shape
   */
  reshape(shape: readonly number[]): Tensor {
    if (countElements(shape) !== this.size) {
      throw new UsageError('MTL_SHAPE', `cannot reshape [${this.shape.join(', ')}] to [${shape.join(', ')}]`);
    }
    if (this.#strides === undefined) return this.view({ shape });
    const strides = reshapedStrides(this, shape);
    if (strides !== undefined) return this.strided({ shape, strides });
    const [from, to] = [this.shape, shape].map((sizes) => `[${sizes.join(', ')}]`);
    throw new UsageError('MTL_SHAPE', `cannot reshape a strided view ${from} to ${to} without a copy`, {
      remedy: 'copy it with cast first',
    });
  }

  /**
   * Returns a view of rows `start` to `end` (exclusive) of the first dimension. Both tensors share memory.
   */
  rows(start: number, end: number): Tensor {
    const shape = [end - start, ...this.shape.slice(1)];
    const strides = this.#strides;
    if (strides !== undefined) return this.strided({ offset: start * strides[0]!, shape, strides });
    return this.view({ offset: start * (this.size / this.dim(0)), shape });
  }

  /**
   * Copies host values into the tensor, from a typed array of the tensor's dtype and size, or from a
   * Uint8Array with all its bytes.
   *
   * @throws UsageError `MTL_DTYPE` for a typed array whose type does not match the dtype, `MTL_SHAPE` if its
   *   size does not match
   */
  write(values: TypedArray): void {
    checkTypedArray(values, this);
    callNative(() => addon().write(this.handle, values));
  }

  /**
   * Lends the memory of a tensor on the CPU to `use`, for example to read a file into the memory without a
   * copy. `memory` refers to the tensor's memory until the promise that `use` returns has settled. Until
   * then, no operation may use the tensor.
   *
   * @throws KernelError `MTL_DEVICE` if the tensor is not on the CPU
   */
  async withMemory<Result>(use: (memory: Uint8Array) => Promise<Result>): Promise<Result> {
    // keeps the memory even if this tensor is disposed of in the meantime
    const kept = callNative(() => addon().createView(this.handle, 0, passShape([this.size])));
    try {
      const memory = callNative(() => addon().lend(kept));
      try {
        return await use(memory);
      } finally {
        callNative(() => addon().takeBack(memory));
      }
    } finally {
      callNative(() => addon().release(kept));
    }
  }

  /**
   * Copies the elements to the host. Waits for the device. 16-bit floats are returned as bits (see
   * `toArray`).
   */
  read<D extends DType = DType>(): TypedArrayOf[D] {
    const values = newTypedArray(this.dtype, this.size);
    this.readInto(values);
    return values as TypedArrayOf[D];
  }

  /**
   * Copies the elements into an existing typed array, whose type and size must be the same as for `write`.
   */
  readInto(values: TypedArray): void {
    checkTypedArray(values, this);
    callNative(() => addon().read(this.handle, values));
  }

  /**
   * Starts a copy of the elements to the host, without waiting for the device. The copy contains the values
   * after all work that has already been enqueued.
   *
   * @throws KernelError `MTL_UNSUPPORTED` for a device without marks (see `supportsMarks`)
   */
  startRead<D extends DType = DType>(): PendingRead<D> {
    return new PendingRead<D>(this);
  }

  /** Returns the elements as numbers, for any dtype. */
  toArray(): number[] {
    return toNumbers(this.read(), this.dtype);
  }

  /** Returns the only element of a tensor of size 1, as a number. Waits for the device. */
  item(): number {
    if (this.size !== 1) throw new UsageError('MTL_SHAPE', `item() of a tensor of ${this.size} elements`);
    return this.toArray()[0]!;
  }

  zero(): void {
    callNative(() => addon().zero(this.handle));
  }

  /**
   * Disposes of this tensor. The memory is freed when its last view is disposed of. A second call has no
   * effect.
   */
  dispose(): void {
    if (this.#handle === 0) return;
    const handle = this.#handle;
    this.#handle = 0;
    callNative(() => addon().release(handle));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Returns, for example, `Tensor float32 [2, 3] on cpu`, for console.log and `util.inspect`. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    const lifetime = this.isDisposed ? ', disposed' : '';
    return `Tensor ${this.dtype} [${this.shape.join(', ')}] on ${this.device}${lifetime}`;
  }
}

/**
 * Returns properties to be added to an object that represents this tensor while a file is loaded. If the
 * tensor is on the CPU, they contain `withMemory`, because its memory can then be lent.
 */
export function lentMemory(tensor: Tensor): {
  readonly withMemory?: (fill: (memory: Uint8Array) => Promise<void>) => Promise<void>;
} {
  return tensor.device === 'cpu' ? { withMemory: (fill) => tensor.withMemory(fill) } : {};
}

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);

/** Returns the bits of the bfloat16 value nearest to `value`, ties to even. */
export function bfloat16Bits(value: number): number {
  float32[0] = value;
  const bits = float32Bits[0]!;
  if ((bits & 0x7fffffff) > 0x7f800000) return ((bits >>> 16) | 0x40) & 0xffff;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Returns the number of bfloat16 bits. */
export function bfloat16Value(bits: number): number {
  float32Bits[0] = bits << 16;
  return float32[0]!;
}

/** Returns the number of IEEE half-precision bits. */
export function float16Value(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/**
 * The float32 bits of two limits: 2^-14, the smallest normal float16, and 65,520, the smallest value that is
 * rounded to infinity.
 */
const [smallestNormalHalf, infiniteHalf] = [0x38800000, 0x477ff000];
/** The difference of the two formats' exponent biases, 127 - 15, as float32 bits. */
const halfBias = 112 << 23;

/** Returns the bits of the IEEE half-precision value nearest to `value`, ties to even. */
export function float16Bits(value: number): number {
  float32[0] = value;
  const bits = float32Bits[0]!;
  const size = bits & 0x7fffffff;
  if (float32[0] === value && size >= smallestNormalHalf && size < infiniteHalf) {
    return ((bits >>> 16) & 0x8000) | ((size - halfBias + 0xfff + ((size >>> 13) & 1)) >>> 13);
  }
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 2 ** -24)));
  const scaled = magnitude / 2 ** (exponent - 10);
  let rounded = Math.floor(scaled);
  const rest = scaled - rounded;
  if (rest > 0.5 || (rest === 0.5 && rounded % 2 === 1)) rounded += 1;
  // A carry out of the fraction increments the exponent automatically.
  return sign | (rounded + (rounded >= 1024 ? (exponent + 14) * 1024 : 0));
}

function notNumbers(what: string, remedy?: string): UsageError {
  return new UsageError('MTL_ARGUMENT', `the values of a tensor are ${what}`, {
    expected: 'a typed array of its dtype or an array of numbers',
    ...(remedy === undefined ? {} : { remedy }),
  });
}

function convert(values: readonly number[], tensor: Tensor): TypedArray {
  if (!Array.isArray(values)) throw notNumbers(describeOperand(values));
  const wrong = values.findIndex((value) => typeof value !== 'number' && typeof value !== 'bigint');
  if (wrong >= 0) {
    const what = `an array whose element ${wrong} is ${describeOperand(values[wrong])}`;
    throw notNumbers(what, Array.isArray(values[wrong]) ? 'flatten it: values.flat()' : undefined);
  }
  const { dtype } = tensor;
  checkLength(values.length, tensor, { what: 'an array of' });
  const array = newTypedArray(dtype, values.length);
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    if (array instanceof BigInt64Array) array[index] = BigInt(value);
    else if (dtype === 'bfloat16') array[index] = bfloat16Bits(value);
    else if (dtype === 'float16') array[index] = float16Bits(value);
    else array[index] = value;
  }
  return array;
}

function toNumbers(values: TypedArray, dtype: DType): number[] {
  if (values instanceof BigInt64Array) return Array.from(values, Number);
  const numbers = Array.from(values);
  if (dtype === 'bfloat16') return numbers.map(bfloat16Value);
  if (dtype === 'float16') return numbers.map(float16Value);
  return numbers;
}
