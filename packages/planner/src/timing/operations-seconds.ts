import type { Operation } from '../operations/operation.js';
import type { Profile } from '../profiles/profile.js';
import { collectiveSeconds } from './collective-seconds.js';
import { matmulSeconds } from './matmul-seconds.js';

/** Seconds of a pass by what they are spent on. */
export interface PassSeconds {
  matmuls: number;
  attention: number;
  kernels: number;
  /** Tensor-parallel collectives that computation waits for, and what hidden ones cost it. */
  tensorCommunication: number;
  /** The GPU waits for the host to start operations. */
  host: number;
}

/** Time of operations that run one after the other on one GPU. */
export function operationsSeconds(operations: readonly Operation[], profile: Profile): PassSeconds {
  const seconds: PassSeconds = { matmuls: 0, attention: 0, kernels: 0, tensorCommunication: 0, host: 0 };
  for (const operation of operations) add(seconds, operation, profile);
  const hostSeconds = operations.length * profile.software.hostSecondsPerOperation.value;
  seconds.host = Math.max(0, hostSeconds - passSeconds(seconds));
  return seconds;
}

/** Their sum. */
export function passSeconds(seconds: PassSeconds): number {
  return Object.values(seconds).reduce((sum: number, value: number) => sum + value, 0);
}

function add(seconds: PassSeconds, operation: Operation, profile: Profile): void {
  const { hardware } = profile;
  const { memory } = hardware;
  const bandwidth = memory.bytesPerSecond.value * memory.efficiency.value;
  const scoresBandwidth = memory.bytesPerSecond.value * memory.scoresEfficiency.value;
  const start = hardware.kernelStartSeconds.value;
  switch (operation.kind) {
    case 'matmul':
      seconds[operation.time] += matmulSeconds(operation, hardware);
      return;
    case 'kernel':
      seconds[operation.time] +=
        start + operation.bytes / (operation.time === 'attention' ? scoresBandwidth : bandwidth);
      return;
    case 'fused-attention': {
      const rate = hardware.matmul.peakFlops.fp16.value * hardware.attention.flashEfficiency.value;
      seconds.attention += start + Math.max(operation.flops / rate, operation.bytes / bandwidth);
      return;
    }
    case 'collective':
      seconds.tensorCommunication += collectiveSeconds(operation, profile);
      return;
    case 'hidden-collective': {
      const computing = matmulSeconds(operation.behind, hardware);
      const communicating = collectiveSeconds(operation.collective, profile);
      seconds[operation.behind.time] += computing;
      seconds.tensorCommunication +=
        Math.max(0, communicating - computing) +
        Math.min(communicating, computing) * hardware.overlapCost.value;
    }
  }
}
