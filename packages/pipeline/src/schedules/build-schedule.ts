import { ConfigurationError, nearestName } from '@mtl/errors';
import { breadthFirst, gpipe } from './all-forward-all-backward.js';
import { interleaved } from './interleaved.js';
import { oneForwardOneBackward } from './one-forward-one-backward.js';
import type { PipelineSchedule, ScheduleFunction, ScheduleSize } from './pipeline-schedule.js';
import { zeroBubbleH1, zeroBubbleH2 } from './zero-bubble-h.js';
import { zeroBubbleV } from './zero-bubble-v.js';

const functions = {
  gpipe,
  '1f1b': oneForwardOneBackward,
  interleaved,
  'breadth-first': breadthFirst,
  'zb-h1': zeroBubbleH1,
  'zb-h2': zeroBubbleH2,
  'zb-v': zeroBubbleV,
} as const satisfies Readonly<Record<string, ScheduleFunction>>;

/** The schedules that have a name. */
export type ScheduleName = keyof typeof functions;

/** The names of the schedules in this package, simplest first. */
export const scheduleNames: readonly ScheduleName[] = Object.keys(functions) as ScheduleName[];

/**
 * The name of a schedule in this package, or any other string for a user's own schedule. Editors complete the
 * known names.
 */
export type ScheduleNameOrOther = ScheduleName | (string & {});

/**
 * Builds the schedule `name` in the given size.
 *
 * @throws ConfigurationError `MTL_SCHEDULE_NAME` for an unknown name, with the most similar name; also the
 *   errors of the function that builds the schedule
 */
export function buildSchedule(name: ScheduleNameOrOther, size: ScheduleSize): PipelineSchedule {
  if (Object.hasOwn(functions, name)) return functions[name as ScheduleName](size);
  const near = nearestName(name, scheduleNames);
  throw new ConfigurationError('MTL_SCHEDULE_NAME', `unknown schedule ${name}`, {
    expected: `one of ${scheduleNames.join(', ')}`,
    ...(near === undefined ? {} : { remedy: `did you mean ${near}?` }),
    details: { name, known: scheduleNames },
  });
}
