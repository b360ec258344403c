import type { PassKind } from '../schedules/pipeline-schedule.js';
import { type Simulation, simulateSchedule } from '../simulator/simulate-schedule.js';

export interface PredictStepOptions {
  /** Steps from which the times are taken; default the one that is predicted. */
  readonly samples?: readonly Simulation[];
  /** Milliseconds from one rank to another; default 0. */
  readonly communication?: number | undefined;
}

/** Simulates a measured step: its schedule with the median time of each kind of pass on each chunk. */
export function predictStep(step: Simulation, options: PredictStepOptions = {}): Simulation {
  const { samples = [step], communication = 0 } = options;
  const { schedule } = step;
  const durations = new Map<string, number[]>();
  for (const { ranks } of samples) {
    for (const { action, start, end } of ranks.flatMap(({ passes }) => passes)) {
      const key = `${action.kind} ${action.chunk}`;
      const known = durations.get(key);
      if (known === undefined) durations.set(key, [end - start]);
      else known.push(end - start);
    }
  }
  const medians = (kind: PassKind): number[] =>
    // a kind that a chunk does not have takes no part in the schedule
    schedule.placement.map((_, chunk) => median(durations.get(`${kind} ${chunk}`) ?? [0]));
  return simulateSchedule({
    schedule,
    times: {
      forward: medians('F'),
      backward: medians('B'),
      backwardInput: medians('I'),
      backwardWeight: medians('W'),
      communication,
    },
  });
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
