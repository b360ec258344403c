import { SingleProcessGroup, type TakenTrace, type TraceEntry, type World } from '@mtl/comm';
import type { PretrainingConfiguration } from '@mtl/configuration';
import { StepProfiler } from '@mtl/pipeline';
import type { TrainingProcesses } from './training-processes.js';

/** What records the steps that --profile-steps names; none without it. All ranks call it. */
export function trainingProfiler(
  { logging }: Pick<PretrainingConfiguration, 'logging'>,
  { world, processes }: { readonly world: World | undefined; readonly processes: TrainingProcesses },
): StepProfiler | undefined {
  if (logging.profile === undefined) return undefined;
  return new StepProfiler({
    ...logging.profile,
    group: world?.group ?? new SingleProcessGroup('world'),
    pipeline: processes.groups.pp,
    takeOperations: () => operationsOf(world),
  });
}

/**
 * What the groups of a process did since the last call; worlds of one process or of threads keep no record.
 */
function operationsOf(
  world: (World & { takeTrace?(): TakenTrace }) | undefined,
): readonly TraceEntry[] & { readonly numDropped?: number } {
  return world?.takeTrace?.() ?? [];
}
