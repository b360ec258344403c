import { KernelError, UsageError } from '@mtl/errors';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { NativePointer } from './native/kernels-addon.js';

/**
 * The driver's and its libraries' refusals, of which several have codes of their own, as what they are while
 * a graph is recorded.
 */
function asCaptureError(error: unknown): unknown {
  if (!(error instanceof KernelError) || !['MTL_CUDA', 'MTL_CUBLASLT'].includes(error.code)) return error;
  return new KernelError('MTL_CAPTURE', error.message, { cause: error });
}

/** Tells whether work on an open device can be recorded and launched again as a whole: that on `cuda` can. */
export function supportsGraphs(device: Device): boolean {
  return addon().supportsGraphs(deviceNumber(device));
}

/**
 * Refuses what cannot be part of a graph, for code that works outside of the device's stream: nothing happens
 * on devices without graphs.
 *
 * @param what the subject of the error's sentence: `communication between ranks`
 * @throws KernelError `MTL_CAPTURE` while this thread records a graph of the device
 */
export function refuseInGraph(device: Device, what: string): void {
  callNative(() => addon().refuseInGraph(deviceNumber(device), what));
}

/**
 * Operations that were recorded, to be launched again and again with one call: on the tensors that they were
 * recorded on, which must still be there, and on what these hold by then. `countedFlops` counts its FLOPs at
 * every launch; `operationStatistics` counts calls when they are recorded.
 */
export class DeviceGraph {
  readonly #device: number;
  #graph: NativePointer | undefined;

  /** @internal */
  constructor(device: number, graph: NativePointer) {
    this.#device = device;
    this.#graph = graph;
  }

  /** Enqueues all of it; without waiting. */
  launch(): void {
    const graph = this.#graph;
    if (graph === undefined) throw new UsageError('MTL_GRAPH', 'a graph was launched after dispose()');
    callNative(() => addon().launchGraph(this.#device, graph));
  }

  /** A launch that is under way still ends. A second call does nothing. */
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
 * Memory that graphs share. What is recorded keeps the addresses of tensors that come and go meanwhile, so
 * these have memory here that no other tensor gets, for as long as this lives; of the device's statistics all
 * of it is in use. A launch overwrites what is in it, whichever tensor has it by then, except tensors that
 * were there when its graph was recorded: what `run` and other graphs leave here is read before.
 */
export class GraphMemory {
  readonly #device: number;
  #memory: NativePointer | undefined;

  /** @throws KernelError `MTL_UNSUPPORTED` for a device without graphs (`supportsGraphs`) */
  constructor(device: Device) {
    this.#device = deviceNumber(device);
    this.#memory = callNative(() => addon().createGraphMemory(this.#device));
  }

  /** Runs `body`, which must not be asynchronous, with memory for new tensors from here. */
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
   * Runs `body` as `run` does, but its operations are recorded instead of done: nothing happens before the
   * graph is launched. Operations should have run once before, with tensors of the same shapes: libraries
   * choose algorithms the first time.
   *
   * @throws KernelError `MTL_CAPTURE` when `body` waits for the device, copies from or to the host, or calls
   *   a library that does, or the driver makes no graph of it; `MTL_OUT_OF_MEMORY`; and whatever `body`
   *   throws. Nothing of it has been done on the device then
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
   * Gives the memory back. A second call does nothing.
   *
   * @throws KernelError `MTL_ARGUMENT` while tensors have some of it
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
      // what made the capture fail is thrown already; this only ends it
    }
  }
}
