import { KernelError } from '@mtl/errors';
import { probeCuda } from '../../src/index.js';

/**
 * Which CUDA device tests run on: a card, or the emulation that MTL_CUDA_LIBRARY names. Without either they are
 * skipped, and their title says why.
 */
export function cudaUnderTest(): { readonly skipped: boolean; readonly title: string } {
  try {
    const { devices, driverVersion } = probeCuda();
    const device = devices[0];
    if (device !== undefined) return { skipped: false, title: device.name };
    return { skipped: true, title: driverVersion === undefined ? 'no NVIDIA driver' : 'no CUDA device' };
  } catch (error) {
    if (!(error instanceof KernelError)) throw error;
    return {
      skipped: true,
      title: error.code === 'MTL_CUDA_LIBRARY' ? 'no CUDA library built' : error.message,
    };
  }
}
