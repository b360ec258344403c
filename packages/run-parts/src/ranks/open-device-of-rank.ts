import { type Device, isDeviceAvailable, openDevice } from '@mtl/kernels';
import { probeCuda } from '@mtl/kernels/internal';

export interface DeviceOfRankOptions {
  readonly localRank: number;
  /** See `openCuda`. */
  readonly allowTf32?: boolean | undefined;
}

/**
 * Makes the device ready for a process: of the GPUs that it sees the one of its number on the host, from the
 * beginning again where there are more processes than GPUs. A device that is open already stays.
 *
 * @throws those of `openDevice`
 */
export function openDeviceOfRank(device: Device, { localRank, allowTf32 }: DeviceOfRankOptions): void {
  if (device !== 'cuda' || isDeviceAvailable(device)) return;
  // without a GPU the first one is asked for, and refused with what is missing
  const numDevices = Math.max(1, probeCuda().devices.length);
  openDevice(device, {
    deviceIndex: localRank % numDevices,
    ...(allowTf32 === undefined ? {} : { allowTf32 }),
  });
}
