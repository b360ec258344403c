import {
  countedFlops,
  type Device,
  type DType,
  hasValues,
  memoryStatistics,
  resetCountedFlops,
  resetPeakMemory,
  Tensor,
  trimMemory,
} from '../../src/index.js';
import { disposeAll, makeTensors } from './case-tensors.js';
import type { OpCase, TensorSpec, Tensors } from './op-case.js';

export interface CountsOptions {
  readonly device: Device;
  readonly dtype: DType;
  readonly tensors?: Readonly<Record<string, TensorSpec>>;
}

/** Returns the peak of memory in bytes, the number of allocations and the FLOPs of a call on a device. */
export function countsOfCase(
  opCase: OpCase,
  { device, dtype, tensors: specs = opCase.tensors }: CountsOptions,
) {
  trimMemory(device);
  const tensors = hasValues(device)
    ? makeTensors(specs, { device, dtype, seed: 7 })
    : emptyTensors(specs, { device, dtype });
  try {
    const { bytesInUse } = memoryStatistics(device);
    resetPeakMemory(device);
    resetCountedFlops();
    opCase.run(tensors);
    const { peakBytes, numAllocations } = memoryStatistics(device);
    return { peak: peakBytes - bytesInUse, numAllocations, flops: countedFlops() };
  } finally {
    disposeAll(tensors);
  }
}

const emptyTensors = (
  specs: OpCase['tensors'],
  { device, dtype: compute }: Pick<CountsOptions, 'device' | 'dtype'>,
): Tensors =>
  Object.fromEntries(
    Object.entries(specs).map(([name, { shape, dtype = compute }]) => [
      name,
      Tensor.empty({ shape, dtype, device }),
    ]),
  );
