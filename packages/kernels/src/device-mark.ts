import { UsageError } from '@mtl/errors';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { NativePointer } from './native/kernels-addon.js';

/**
 * Whether a device goes on with its work while the host does other things, so that it has marks, and copies
 * that are read later: `cuda` once it is open. Others have done their work when a call returns.
 */
export function supportsMarks(device: Device): boolean {
  return addon().supportsMarks(deviceNumber(device));
}

/**
 * A point in the work enqueued on a device: marks tell how long the device took from one to another. Must be
 * disposed of.
 */
export class DeviceMark {
  readonly #device: number;
  #mark: NativePointer | undefined;

  /**
   * @param create @internal enqueues the mark with more
   * @throws KernelError `MTL_UNSUPPORTED` for a device without marks (`supportsMarks`); `MTL_CAPTURE` while a
   *   graph is recorded
   */
  constructor(device: Device, create = (number: number): NativePointer => addon().markDevice(number)) {
    this.#device = deviceNumber(device);
    this.#mark = callNative(() => create(this.#device));
  }

  /** Of the device, from a mark that was enqueued before; waits for this one. */
  millisecondsSince(earlier: DeviceMark): number {
    const [later, before] = [this.pointer, earlier.pointer];
    return callNative(() => addon().millisecondsBetween(this.#device, later, before));
  }

  /** Waits for it. A second call does nothing. */
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
