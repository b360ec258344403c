import type { PipelineSchedule } from '../schedules/pipeline-schedule.js';
import { peakActivations } from '../simulator/peak-activations.js';
import type { TimedPass } from '../simulator/run-in-order.js';
import type { Simulation } from '../simulator/simulate-schedule.js';

/**
 * Makes a step whose passes run at given times, from 0 on; it ends with the last of them, and the optimizer
 * is no part of it.
 */
export function stepOfPasses(
  schedule: PipelineSchedule,
  passes: ReadonlyArray<readonly TimedPass[]>,
): Simulation {
  const makespan = Math.max(...passes.flat().map(({ end }) => end));
  const peaks = peakActivations(schedule);
  const ranks = passes.map((order, rank) => {
    const busy = order.reduce((sum, { start, end }) => sum + (end - start), 0);
    const step = { stepStart: 0, optimizerStart: makespan, busy, idle: makespan - busy };
    return { passes: order, ...step, peak: peaks[rank]! };
  });
  const busy = ranks.reduce((sum, rank) => sum + rank.busy, 0);
  const idle = ranks.reduce((sum, rank) => sum + rank.idle, 0);
  const times = { makespan, stepTime: makespan, bubbleFraction: busy === 0 ? 0 : idle / busy };
  return { schedule, ...times, hasBarrier: true, optimizerTime: 0, ranks };
}
