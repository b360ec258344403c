import { UsageError } from '@mtl/errors';
import { type OpenCudaOptions, openCuda } from './cuda/open-cuda.js';
import { addon, callNative } from './native/addon.js';
import type { MemoryStatistics } from './native/kernels-addon.js';

/**
 * Where a tensor can be. Each device has its own kernels. `cpu`: vectorised and threaded; `reference`: the
 * naive oracle, on the same host memory; `cuda`: NVIDIA GPUs; `meta` and `meta-cuda`: tensors without memory
 * and values; operations are checked and counted, and memory is counted as in the allocators of `cpu` and
 * `cuda`.
 */
export const devices = ['cpu', 'reference', 'cuda', 'meta', 'meta-cuda'] as const;

export type Device = (typeof devices)[number];

/**
 * Returns the number by which native code identifies a device (see native/core/backend.h).
 *
 * @throws UsageError `MTL_DEVICE` for an unknown name
 */
export function deviceNumber(device: Device): number {
  const number = devices.indexOf(device);
  if (number >= 0) return number;
  throw new UsageError('MTL_DEVICE', `unknown device ${String(device)}`, {
    expected: devices.join(', '),
  });
}

/** Returns true if tensors on the device have values. Tensors on `meta` and `meta-cuda` have none. */
export function hasValues(device: Device): boolean {
  return device !== 'meta' && device !== 'meta-cuda';
}

/** Returns the device without values that counts how much memory `device` would need. */
export function chooseMetaDevice(device: Device): 'meta' | 'meta-cuda' {
  return device === 'cuda' || device === 'meta-cuda' ? 'meta-cuda' : 'meta';
}

/**
 * Returns the device on which a program that uses `device` creates the tensors whose values it must read
 * itself. This is `device`, or `cpu` if tensors on `device` have no values.
 */
export function deviceOfValues(device: Device): Device {
  return hasValues(device) ? device : 'cpu';
}

/**
 * Opens a device for this process, or throws an error that states the reason. Only `cuda` must be opened (see
 * `openCuda`); all other devices are always ready.
 *
 * @throws UsageError `MTL_DEVICE` for an unknown name; the errors of `openCuda`
 */
export function openDevice(device: Device, options: OpenCudaOptions = {}): void {
  deviceNumber(device);
  if (device === 'cuda') openCuda(options);
}

/** Returns true if this process can use the device. `cuda` must already be open. */
export function isDeviceAvailable(device: Device): boolean {
  return addon().isAvailable(deviceNumber(device));
}

export function memoryStatistics(device: Device): MemoryStatistics {
  return callNative(() => addon().memoryStatistics(deviceNumber(device)));
}

export function resetPeakMemory(device: Device): void {
  callNative(() => addon().resetPeakMemory(deviceNumber(device)));
}

/** Gives cached blocks back to the system. */
export function trimMemory(device: Device): void {
  callNative(() => addon().trimMemory(deviceNumber(device)));
}

/**
 * Sets a limit: allocations that would exceed `bytes` bytes in use fail with MTL_OUT_OF_MEMORY. 0 removes the
 * limit.
 */
export function limitMemory(device: Device, bytes: number): void {
  callNative(() => addon().limitMemory(deviceNumber(device), bytes));
}

/** Waits until the device has finished everything that has been enqueued so far. */
export function synchronize(device: Device): void {
  callNative(() => addon().synchronize(deviceNumber(device)));
}

/**
 * Runs `body`. If the device is `cuda` and MTL_NVTX is set, `body` is a named range in the timeline of
 * NVIDIA's profiler (nsys). Each operation in `body` also has its own range.
 */
export function deviceRange<Result>(
  { device, name }: { device: Device; name: string },
  body: () => Result,
): Result {
  callNative(() => addon().pushRange(deviceNumber(device), name));
  const end = (): void => callNative(() => addon().popRange(deviceNumber(device)));
  let result: Result;
  try {
    result = body();
  } catch (error) {
    end();
    throw error;
  }
  if (!(result instanceof Promise)) {
    end();
    return result;
  }
  return result.finally(end) as Result;
}
