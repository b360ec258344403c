import { probeCuda } from '@mtl/kernels';

/** The GPU that tests run on: a card, or the emulation that MTL_CUDA_LIBRARY names. Without either `problem` says why. */
export function gpuUnderTest(): {
  readonly title: string;
  readonly problem: boolean;
  readonly isEmulated: boolean;
} {
  try {
    const [device] = probeCuda().devices;
    if (device === undefined) return { title: 'no CUDA device', problem: true, isEmulated: false };
    return { title: device.name, problem: false, isEmulated: device.name.startsWith('emulation') };
  } catch {
    return { title: 'no CUDA library built', problem: true, isEmulated: false };
  }
}
