import { UsageError } from '@mtl/errors';
import { type OpenCudaOptions, openCuda } from './cuda/open-cuda.js';
import type { MemoryStatistics } from './memory-statistics.js';
import { addon, callNative } from './native/addon.js';

/**
 * Where a tensor lives and which kernels run on it. `cpu`: vectorised and threaded; `reference`: the naive
 * oracle, on the same host memory; `cuda`: NVIDIA GPUs; `meta`: no memory and no values, operations are
 * checked and counted, and memory is counted as the CPU's allocator takes it.
 */
export const devices = ['cpu', 'reference', 'cuda', 'meta'] as const;

export type Device = (typeof devices)[number];

/**
 * The native number of a device (native/core/backend.h).
 *
 * @throws UsageError `MTL_DEVICE` for a name that is none
 */
export function deviceNumber(device: Device): number {
  const number = devices.indexOf(device);
  if (number >= 0) return number;
  throw new UsageError('MTL_DEVICE', `there is no device ${String(device)}`, {
    expected: devices.join(', '),
  });
}

/**
 * The device of tensors whose values the program itself reads, next to others on `device`: the same one, and
 * the CPU for `meta`, whose tensors have no values.
 */
export function deviceOfValues(device: Device): Device {
  return device === 'meta' ? 'cpu' : device;
}

/**
 * Makes a device ready for this process, or throws an error with the reason: `cuda` is opened (`openCuda`),
 * the others are there always.
 *
 * @throws UsageError `MTL_DEVICE` for a name that is none; those of `openCuda`
 */
export function openDevice(device: Device, options: OpenCudaOptions = {}): void {
  deviceNumber(device);
  if (device === 'cuda') openCuda(options);
}

/** Whether the device can be used in this process: `cuda` once it is open. */
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

/** Makes allocations beyond `bytes` in use fail with MTL_OUT_OF_MEMORY; 0 lifts the limit. */
export function limitMemory(device: Device, bytes: number): void {
  callNative(() => addon().limitMemory(deviceNumber(device), bytes));
}

/** Waits until the device has done everything enqueued so far. */
export function synchronize(device: Device): void {
  callNative(() => addon().synchronize(deviceNumber(device)));
}
