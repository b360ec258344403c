import { UsageError } from '@mtl/errors';
import { type Device, deviceNumber } from './device.js';
import { type DType, newTypedArray, type TypedArrayOf } from './dtype.js';
import { addon, callNative } from './native/addon.js';
import type { NativePointer } from './native/kernels-addon.js';

/**
 * Returns true if a device works asynchronously to the host, and therefore has marks and pending reads. This
 * is true of `cuda` after it has been opened. All other devices finish their work before a call returns.
 */
export function supportsMarks(device: Device): boolean {
  return addon().supportsMarks(deviceNumber(device));
}

/**
 * A point in the work that is enqueued on a device. The time between two marks can be measured on the device.
 * A mark must be disposed of.
 */
export class DeviceMark {
  readonly #device: number;
  #mark: NativePointer | undefined;

  /**
   * @param create @internal enqueues a mark that also copies memory
   * @throws KernelError `MTL_UNSUPPORTED` for a device without marks (see `supportsMarks`); `MTL_CAPTURE`
   *   while a graph is being recorded
   */
  constructor(device: Device, create = (number: number): NativePointer => addon().markDevice(number)) {
    this.#device = deviceNumber(device);
    this.#mark = callNative(() => create(this.#device));
  }

  /**
   * Returns how many milliseconds lie between an earlier mark and this mark, as measured by the device. Waits
   * for this mark.
   */
  millisecondsSince(earlier: DeviceMark): number {
    const [later, before] = [this.pointer, earlier.pointer];
    return callNative(() => addon().millisecondsBetween(this.#device, later, before));
  }

  /** Waits for the mark and destroys it. A second call has no effect. */
  dispose(): void {
    const mark = this.#mark;
    if (mark === undefined) return;
    this.#mark = undefined;
    callNative(() => addon().destroyMark(this.#device, mark));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  protected get device(): number {
    return this.#device;
  }

  protected get pointer(): NativePointer {
    if (this.#mark !== undefined) return this.#mark;
    throw new UsageError('MTL_MARK', 'a mark of a device was used after dispose()');
  }
}

/**
 * The elements of a tensor, which the device copies to the host asynchronously, and a mark after the copy.
 * `Tensor.startRead` returns it. The tensor may be disposed of at once, and later operations may overwrite
 * it.
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
   * Returns the elements, like `Tensor.read`. Waits for the copy, but not for later work.
   *
   * @throws KernelError `MTL_INDEX` if an operation between the previous copy and this copy has read an
   *   out-of-range index
   */
  read(): TypedArrayOf[D] {
    callNative(() => addon().readMark(this.device, this.pointer, this.#values));
    return this.#values;
  }
}
