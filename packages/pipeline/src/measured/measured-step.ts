import { DataError } from '@mtl/errors';
import type { PassKind, PipelineSchedule, ScheduleAction } from '../schedules/pipeline-schedule.js';
import { checkSchedule } from '../simulator/check-schedule.js';
import { peakActivations } from '../simulator/peak-activations.js';
import { runInOrder, type TimedPass } from '../simulator/run-in-order.js';
import { type Simulation, simulateSchedule } from '../simulator/simulate-schedule.js';
import { median } from './median.js';
import type { RecordedSpan } from './pipeline-recorder.js';

/** Nanoseconds per millisecond, the unit of a measured step. */
const millisecond = 1e6;

/**
 * Converts a measured step to the form of a simulated step, so that both can be shown in the same way. Times
 * are milliseconds since the start of the first pass of any rank. The step ends with the last pass, before
 * gradient reduction and optimizer. Schedule and placement are derived from the passes.
 *
 * @param ranks the spans of each rank of the pipeline in this step, on one clock. Spans that are not passes
 *   are ignored
 * @throws DataError `MTL_TRACE` if the passes are not one complete step
 */
export function measureStep(
  ranks: ReadonlyArray<readonly RecordedSpan[]>,
  { name }: { readonly name: string },
): Simulation {
  const spans = ranks.map((rank) => rank.filter(isPass).sort((a, b) => a.startNs - b.startNs));
  const origin = Math.min(...spans.flat().map(({ startNs }) => startNs));
  const passes = spans.map((rank) =>
    rank.map(
      ({ kind, chunk, microBatch, startNs, endNs }): TimedPass => ({
        action: { kind, chunk, microBatch },
        start: (startNs - origin) / millisecond,
        end: (endNs - origin) / millisecond,
      }),
    ),
  );
  const schedule = followedSchedule(
    passes.map((rank) => rank.map(({ action }) => action)),
    name,
  );
  return stepOfPasses(schedule, passes);
}

type PassSpan = RecordedSpan & ScheduleAction;

const passKinds: readonly PassKind[] = ['F', 'B', 'I', 'W'];

function isPass(span: RecordedSpan): span is PassSpan {
  return (passKinds as readonly string[]).includes(span.kind);
}

function followedSchedule(actions: ReadonlyArray<readonly ScheduleAction[]>, name: string): PipelineSchedule {
  const all = actions.flat();
  const homes = new Map(actions.flatMap((order, rank) => order.map(({ chunk }) => [chunk, rank] as const)));
  const placement = Array.from({ length: homes.size }, (_, chunk) => homes.get(chunk) ?? -1);
  const numMicroBatches = all.reduce((most, { microBatch }) => Math.max(most, microBatch + 1), 0);
  const schedule = { name, numMicroBatches, placement, actions };
  // a schedule that lacks a pass for some micro-batch is not checked further, because the number of
  // micro-batches may be as large as 2^53
  const what =
    numMicroBatches > all.length
      ? `${all.length} passes for ${numMicroBatches} micro-batches`
      : checkSchedule(schedule)[0]?.message;
  if (what === undefined) return schedule;
  throw new DataError('MTL_TRACE', `${name}: its passes are not one step: ${what}`, {
    expected: 'forward and backward of every micro-batch on every chunk, from all ranks of the pipeline',
  });
}

/**
 * Makes a step with passes at the given times, shifted to start at 0. The step ends with the last pass,
 * before the optimizer.
 */
function stepOfPasses(schedule: PipelineSchedule, passes: ReadonlyArray<readonly TimedPass[]>): Simulation {
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

/**
 * Replays a measured step without communication: every pass takes its measured time, but starts as soon as
 * its rank is free and its input exists. The idle time of the result is due to the schedule and to passes of
 * unequal length. The rest of the measured idle time is due to communication and to work between passes.
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

export interface PredictStepOptions {
  /** The steps whose measured times are used. Default: only the given step. */
  readonly samples?: readonly Simulation[];
  /** How long a transfer from one rank to another takes, in milliseconds. Default: 0. */
  readonly communication?: number | undefined;
}

/** Simulates a measured step, given its schedule and the median time of each kind of pass on each chunk. */
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
    // if a chunk has no passes of this kind, the schedule does not use this value
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
