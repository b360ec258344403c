import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';

/**
 * Runs `body` as a named range in the picture of a profiler of the device: on `cuda` with MTL_NVTX set,
 * NVIDIA's (nsys). Every operation also has a range of its own. Otherwise nothing is marked.
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
