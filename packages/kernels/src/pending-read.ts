import type { Device } from './device.js';
import { DeviceMark } from './device-mark.js';
import { type DType, newTypedArray, type TypedArrayOf } from './dtype.js';
import { addon, callNative } from './native/addon.js';

/**
 * Elements of a tensor that its device copies to the host when it gets there, while the host goes on: what
 * `Tensor.startRead` returns, and a mark after the copy. The tensor may be disposed of at once, and written
 * by operations that follow.
 */
export class PendingRead<D extends DType = DType> extends DeviceMark {
  readonly #values: TypedArrayOf[D];

  /** @internal */
  constructor(tensor: {
    readonly device: Device;
    readonly handle: number;
    readonly dtype: DType;
    readonly size: number;
  }) {
    super(tensor.device, (device) => addon().startRead(device, tensor.handle));
    this.#values = newTypedArray(tensor.dtype, tensor.size) as TypedArrayOf[D];
  }

  /**
   * The elements, as `Tensor.read` gives them; waits for the copy, and for nothing that was enqueued after
   * it.
   *
   * @throws KernelError `MTL_INDEX` where an operation before the copy, of those since the last copy, has
   *   read an index out of range
   */
  read(): TypedArrayOf[D] {
    callNative(() => addon().readMark(this.device, this.pointer, this.#values));
    return this.#values;
  }
}
