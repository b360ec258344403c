import { KernelError, UsageError } from '@mtl/errors';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { NativePointer } from './native/kernels-addon.js';

/**
 * Converts an error of the CUDA driver or its libraries to `MTL_CAPTURE`. Used for calls that fail while a
 * graph is being recorded.
 */
function asCaptureError(error: unknown): unknown {
  if (!(error instanceof KernelError) || !['MTL_CUDA', 'MTL_CUBLASLT'].includes(error.code)) return error;
  return new KernelError('MTL_CAPTURE', error.message, { cause: error });
}

/**
 * Returns true if work on a device can be recorded as a graph and launched again. This is possible on `cpu`,
 * and on an open `cuda` device.
 */
export function supportsGraphs(device: Device): boolean {
  return addon().supportsGraphs(deviceNumber(device));
}

/**
 * Throws while a graph is being recorded. Code that works outside of the device's stream calls this function,
 * because such work cannot be part of a graph. Does nothing on devices without graphs.
 *
 * @param what the subject of the error's sentence, such as `communication between ranks`
 * @throws KernelError `MTL_CAPTURE` while this thread records a graph of the device
 */
export function refuseInGraph(device: Device, what: string): void {
  callNative(() => addon().refuseInGraph(deviceNumber(device), what));
}

/**
 * Recorded operations that a single call launches, any number of times. A launch uses the same tensors as the
 * recording, with their current values. These tensors must still exist. `countedFlops` counts the FLOPs at
 * every launch; `operationStatistics` counts the calls only when they are recorded.
 */
export class DeviceGraph {
  readonly #device: number;
  #graph: NativePointer | undefined;

  /** @internal */
  constructor(device: number, graph: NativePointer) {
    this.#device = device;
    this.#graph = graph;
  }

  /** Enqueues all of the graph's operations, without waiting for them. */
  launch(): void {
    const graph = this.#graph;
    if (graph === undefined) throw new UsageError('MTL_GRAPH', 'a graph was launched after dispose()');
    callNative(() => addon().launchGraph(this.#device, graph));
  }

  /** Destroys the graph. A launch in progress still finishes. A second call has no effect. */
  dispose(): void {
    const graph = this.#graph;
    if (graph === undefined) return;
    this.#graph = undefined;
    callNative(() => addon().destroyGraph(this.#device, graph));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Memory that graphs share. A graph keeps the addresses of tensors that are created while it is recorded. The
 * memory of these tensors belongs to this object, and no other tensor uses it as long as the object exists.
 * The device's statistics count all of this memory as in use. A launch overwrites all tensors in this memory,
 * including results of `run` and of other graphs, so read them before the launch. Only tensors that existed
 * when the graph was recorded are not overwritten.
 */
export class GraphMemory {
  readonly #device: number;
  #memory: NativePointer | undefined;

  /** @throws KernelError `MTL_UNSUPPORTED` for a device without graphs (see `supportsGraphs`) */
  constructor(device: Device) {
    this.#device = deviceNumber(device);
    this.#memory = callNative(() => addon().createGraphMemory(this.#device));
  }

  /**
   * Runs `body`, which must not be asynchronous. The tensors that `body` creates are allocated in this
   * memory.
   */
  run<Result>(body: () => Result): Result {
    const memory = this.#memory;
    if (memory === undefined) throw new UsageError('MTL_GRAPH', 'memory of graphs was used after dispose()');
    callNative(() => addon().enterGraphMemory(this.#device, memory));
    try {
      return body();
    } finally {
      callNative(() => addon().leaveGraphMemory(this.#device));
    }
  }

  /**
   * Runs `body` like `run`, but records its operations instead of executing them. They are executed when the
   * graph is launched. The operations should have run before with tensors of the same shapes, because
   * libraries choose algorithms when an operation first runs.
   *
   * @throws KernelError `MTL_CAPTURE` when `body` waits for the device, copies from or to the host, or calls
   *   a library that does so, or if the driver cannot create a graph; `MTL_OUT_OF_MEMORY`; and all errors of
   *   `body`. After an error, the device has executed nothing
   */
  capture(body: () => void): DeviceGraph {
    return this.run(() => {
      this.#beginCapture();
      try {
        body();
      } catch (error) {
        this.#abandonCapture();
        throw asCaptureError(error);
      }
      return new DeviceGraph(this.#device, this.#endCapture());
    });
  }

  /**
   * Returns the memory to the device. A second call has no effect.
   *
   * @throws KernelError `MTL_ARGUMENT` while tensors use the memory
   */
  dispose(): void {
    const memory = this.#memory;
    if (memory === undefined) return;
    callNative(() => addon().destroyGraphMemory(this.#device, memory));
    this.#memory = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #beginCapture(): void {
    try {
      callNative(() => addon().beginCapture(this.#device));
    } catch (error) {
      throw asCaptureError(error);
    }
  }

  #endCapture(): NativePointer {
    try {
      return callNative(() => addon().endCapture(this.#device, true))!;
    } catch (error) {
      throw asCaptureError(error);
    }
  }

  #abandonCapture(): void {
    try {
      addon().endCapture(this.#device, false);
    } catch {
      // the error that occurred during the capture is already being thrown, so this call only ends the
      // capture
    }
  }
}
