import { DataError } from '@mtl/errors';
import type { PassKind, PipelineSchedule, ScheduleAction } from '../schedules/pipeline-schedule.js';
import { checkSchedule } from '../simulator/check-schedule.js';
import type { TimedPass } from '../simulator/run-in-order.js';
import type { Simulation } from '../simulator/simulate-schedule.js';
import type { RecordedSpan } from './pipeline-recorder.js';
import { stepOfPasses } from './step-of-passes.js';

/** Nanoseconds in the unit of a measured step. */
const millisecond = 1e6;

/**
 * Measures one step as it really ran, in the form of a simulated one, so that everything that shows a
 * simulation shows it as well. Times are milliseconds from the first pass of any rank on; the step ends with
 * the last pass (optimizer and gradient reduction are no part of it). Schedule and placement are those that
 * the passes followed.
 *
 * @param ranks the spans of each rank of the pipeline in this step, on one clock; other spans than passes are
 *   left out
 * @throws DataError `MTL_TRACE` when the passes are not those of a whole step
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
  // A schedule without a pass for each micro-batch is not checked further: their number may be as large as
  // 2^53.
  const what =
    numMicroBatches > all.length
      ? `${all.length} passes for ${numMicroBatches} micro-batches`
      : checkSchedule(schedule)[0]?.message;
  if (what === undefined) return schedule;
  throw new DataError('MTL_TRACE', `${name}: its passes are not those of a step: ${what}`, {
    expected: 'forward and backward of every micro-batch on every chunk, from all ranks of the pipeline',
  });
}
