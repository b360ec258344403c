import type { HardwareProfile } from '../profiles/hardware-profile.js';
import { gpuTimes } from './gpu-times.js';
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
