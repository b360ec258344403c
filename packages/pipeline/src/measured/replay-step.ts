import { runInOrder } from '../simulator/run-in-order.js';
import type { Simulation } from '../simulator/simulate-schedule.js';
import { stepOfPasses } from './step-of-passes.js';

/**
 * Computes a measured step as it would have been, had every pass taken the very time it took but begun the
 * moment its rank was free and its input made: its idle time is due to the schedule and to passes of unequal
 * length. The remaining idle time of the measured step is due to communication and to the work between
 * passes.
 */
export function replayStep({ schedule, ranks }: Simulation): Simulation {
  const durations = new Map(
    ranks.flatMap(({ passes }) =>
      passes.map(({ action: { kind, chunk, microBatch }, start, end }) => [
        `${kind} ${chunk} ${microBatch}`,
        end - start,
      ]),
    ),
  );
  const { passes } = runInOrder({
    schedule,
    duration: ({ kind, chunk, microBatch }) => durations.get(`${kind} ${chunk} ${microBatch}`)!,
    communication: 0,
  });
  return stepOfPasses(schedule, passes);
}
