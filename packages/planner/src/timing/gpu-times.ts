import type { GpuProfile } from '../profiles/hardware-profile.js';
import { matmulSeconds } from './matmul-seconds.js';
import type { OperationTimes } from './operation-times.js';

/** Times of the model of a GPU. */
export function gpuTimes(hardware: GpuProfile): OperationTimes {
  const { memory, matmul, attention, kernelStartSeconds } = hardware;
  const start = kernelStartSeconds.value;
  const bandwidth = memory.bytesPerSecond.value * memory.efficiency.value;
  const scoresBandwidth = memory.bytesPerSecond.value * memory.scoresEfficiency.value;
  return {
    matmul: (operation) => matmulSeconds(operation, hardware),
    kernel: ({ bytes, time }) => start + bytes / (time === 'attention' ? scoresBandwidth : bandwidth),
    attention: ({ flops, bytes, dtype = 'fp16' }) => {
      const rate = matmul.peakFlops[dtype].value * attention.flashEfficiency.value;
      return start + Math.max(flops / rate, bytes / bandwidth);
    },
  };
}
