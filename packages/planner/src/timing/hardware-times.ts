import type { GpuProfile, HardwareProfile } from '../profiles/hardware-profile.js';
import { matmulSeconds } from './matmul-seconds.js';
import { measuredTimes } from './measured-times.js';
import type { OperationTimes } from './operation-times.js';

const known = new WeakMap<HardwareProfile, OperationTimes>();

/** The times of a profile. Of measured rates the first are taken, see `ratesFor`. */
export function hardwareTimes(hardware: HardwareProfile): OperationTimes {
  const times =
    known.get(hardware) ??
    (hardware.state === 'measured' ? measuredTimes(hardware.rates[0]!) : gpuTimes(hardware));
  known.set(hardware, times);
  return times;
}

/** Times of the model of a GPU. */
function gpuTimes(hardware: GpuProfile): OperationTimes {
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
