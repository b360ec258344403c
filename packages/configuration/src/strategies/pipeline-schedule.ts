import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { ConfigurationError, MtlError } from '@mtl/errors';
import {
  assertSchedule,
  buildSchedule,
  oneStage,
  type PipelineSchedule,
  parseScheduleCsv,
  type ScheduleFunction,
  type ScheduleSize,
} from '@mtl/pipeline/schedules';
import type { StrategyConfiguration } from './strategies.js';

const expected =
  'a module whose default export is a function from { numStages, numMicroBatches, numChunks, microBatchGroupSize } to a schedule';

/**
 * Loads the schedule function that a JavaScript module exports as default. The schedules of this function are
 * checked.
 *
 * @param path the path of the module, relative to the working directory
 * @returns a function that throws ConfigurationError `MTL_SCHEDULE_MODULE` if the module's function throws or
 *   does not return a schedule of the requested size, and `MTL_SCHEDULE_INVALID` for a schedule that cannot
 *   run
 * @throws ConfigurationError `MTL_SCHEDULE_MODULE` if the path is not a module with such a function
 */
export function loadScheduleModule(path: string): ScheduleFunction {
  const make = attempt(path, () => {
    const loaded: unknown = createRequire(import.meta.url)(resolve(path));
    const named = loaded as { readonly default?: unknown };
    return named?.default ?? loaded;
  });
  if (typeof make !== 'function') throw refusal(path, 'its default export is no function');
  return (size) => {
    const made = attempt(path, () => (make as (size: ScheduleSize) => unknown)(size));
    if (!isSchedule(made)) throw refusal(path, 'what it makes is no schedule');
    const schedule = { ...made, name: path };
    assertSchedule(schedule);
    checkSize(schedule, size);
    return schedule;
  };
}

function attempt<Result>(path: string, body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    // the error comes from a schedule of this project that the module has called
    if (MtlError.isInstance(error)) throw error;
    throw refusal(path, error instanceof Error ? error.message : String(error), error);
  }
}

function refusal(path: string, message: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError('MTL_SCHEDULE_MODULE', `${path}: ${message}`, { expected, cause });
}

/** Returns true if a value has the lists of a schedule; `assertSchedule` checks their contents. */
function isSchedule(made: unknown): made is PipelineSchedule {
  if (typeof made !== 'object' || made === null) return false;
  const { numMicroBatches, placement, actions } = made as Partial<Record<keyof PipelineSchedule, unknown>>;
  const isObject = (action: unknown): boolean => typeof action === 'object' && action !== null;
  return (
    Number.isSafeInteger(numMicroBatches) &&
    Array.isArray(placement) &&
    Array.isArray(actions) &&
    actions.every((order) => Array.isArray(order) && order.every(isObject))
  );
}

function checkSize(
  schedule: PipelineSchedule,
  { numStages, numMicroBatches, numChunks }: ScheduleSize,
): void {
  const { name, placement, actions } = schedule;
  const counts = [
    { what: 'stages', has: actions.length, asked: numStages },
    { what: 'micro-batches', has: schedule.numMicroBatches, asked: numMicroBatches },
    ...(numChunks === undefined
      ? []
      : [{ what: 'chunks', has: placement.length, asked: numStages * numChunks }]),
  ];
  for (const { what, has, asked } of counts) {
    if (has === asked) continue;
    throw new ConfigurationError('MTL_SCHEDULE_MODULE', `${name} made ${has} ${what}`, {
      expected: `${asked} ${what}`,
      ...(what === 'chunks'
        ? { remedy: 'pass the number of chunks that the function makes for each stage' }
        : {}),
      details: { name, what, has, asked },
    });
  }
}

/** The settings that determine the pipeline schedule. */
export type ScheduleConfiguration = Pick<
  StrategyConfiguration,
  | 'pipelineModelParallelSize'
  | 'numVirtualStages'
  | 'pipelineSchedule'
  | 'pipelineScheduleCsv'
  | 'pipelineScheduleModule'
  | 'microBatchGroupSize'
>;

/**
 * A cache of schedules, keyed by configuration and number of micro-batches. The ranks of a dry run request
 * the same schedules many times.
 */
const built = new WeakMap<ScheduleConfiguration, Map<number, PipelineSchedule>>();

/**
 * Returns the schedule of a step with `numMicroBatches` micro-batches on one pipeline. The placement of
 * chunks does not depend on the number of micro-batches.
 *
 * @throws ConfigurationError with the codes of the schedules (see `buildSchedule`) and of modules (see
 *   `loadScheduleModule`), `MTL_SCHEDULE_CSV` if a schedule file has a different number of stages or
 *   micro-batches
 */
export function scheduleOfStep(parallel: ScheduleConfiguration, numMicroBatches: number): PipelineSchedule {
  const known = built.get(parallel) ?? new Map<number, PipelineSchedule>();
  const schedule = known.get(numMicroBatches) ?? buildStep(parallel, numMicroBatches);
  built.set(parallel, known.set(numMicroBatches, schedule));
  return schedule;
}

function buildStep(parallel: ScheduleConfiguration, numMicroBatches: number): PipelineSchedule {
  const { pipelineModelParallelSize: numStages, pipelineSchedule: name, pipelineScheduleCsv } = parallel;
  if (numStages === 1) return oneStage(numMicroBatches);
  if (pipelineScheduleCsv === undefined) {
    const size = {
      numStages,
      numMicroBatches,
      numChunks: parallel.numVirtualStages,
      microBatchGroupSize: parallel.microBatchGroupSize,
    };
    const { pipelineScheduleModule: path } = parallel;
    return path === undefined ? buildSchedule(name, size) : loadScheduleModule(path)(size);
  }
  const schedule = parseScheduleCsv(pipelineScheduleCsv, { name });
  const counts = [
    { what: 'stages', has: schedule.actions.length, asked: numStages },
    { what: 'micro-batches a step', has: schedule.numMicroBatches, asked: numMicroBatches },
  ];
  for (const { what, has, asked } of counts) {
    if (has === asked) continue;
    throw new ConfigurationError('MTL_SCHEDULE_CSV', `${name} is for ${has} ${what}, this run has ${asked}`, {
      expected: `${has} ${what}, or a schedule for ${asked}`,
      details: { name, what, has, asked },
    });
  }
  return schedule;
}
