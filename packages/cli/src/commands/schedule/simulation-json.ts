import type { Simulation } from '@mtl/pipeline/schedules';

/** Returns a simulation as a JSON object, which `mtl schedule --json` prints. */
export function simulationJson(simulation: Simulation): Readonly<Record<string, unknown>> {
  const { schedule, makespan, stepTime, bubbleFraction, hasBarrier, optimizerTime, ranks } = simulation;
  return {
    schedule: schedule.name,
    stages: schedule.actions.length,
    microBatches: schedule.numMicroBatches,
    placement: schedule.placement,
    makespan,
    stepTime,
    bubbleFraction,
    barrier: hasBarrier,
    optimizerTime,
    ranks: ranks.map(({ passes, ...rank }) => ({
      ...rank,
      passes: passes.map(({ action, start, end }) => ({ ...action, start, end })),
    })),
  };
}
