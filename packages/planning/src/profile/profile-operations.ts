import { resetPeakMemory, trimMemory } from '@mtl/kernels';
import type { StepListener } from '@mtl/pipeline';
import type { OperationsToProfile } from '@mtl/runs';
import { formatStepProfile } from './format-step-profile.js';
import { OperationProfile, type StepProfile } from './operation-profile.js';
import { measureRoofline } from './roofline.js';

/** Returns a listener that reports the time of each operation, after the last profiled step. */
export function profileOperations({ onMessage, ...steps }: OperationsToProfile): StepListener {
  return new OperationProfile({ ...steps, onProfile: (profile) => onMessage(describe(profile)) });
}

function describe(profile: StepProfile): string {
  const computed = profile.operations.filter(({ flops }) => flops > 0).map(({ dtype }) => dtype);
  const roofline = measureRoofline(new Set(computed));
  // frees the roofline's tensors, so that the run's memory peak does not include them
  trimMemory('cpu');
  resetPeakMemory('cpu');
  return formatStepProfile(profile, roofline);
}
