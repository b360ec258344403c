import { ConfigurationError } from '@mtl/errors';
import type { PassKind, PipelineSchedule } from '../schedules/pipeline-schedule.js';
import { assertSchedule } from './check-schedule.js';
import {
  type ActivationSizes,
  ofChunk,
  type PeakActivations,
  type PerChunk,
  peakActivations,
} from './peak-activations.js';
import { runInOrder, type TimedPass } from './run-in-order.js';

/**
 * The durations of a micro-batch's passes, in any unit of time. A single number is the duration for all
 * layers of a stage, and is divided by the stage's number of chunks (as in the flags of `mtl schedule`). A
 * list has one duration for each chunk.
 */
export interface PassTimes {
  /** T_F, the time of forward; default 1. */
  readonly forward?: PerChunk;
  /** The time of the backward pass's input half alone, which the zero-bubble papers call T_B. Default: 1. */
  readonly backwardInput?: PerChunk;
  /** The time of the backward pass's weight half alone, which the papers call T_W. Default: 1. */
  readonly backwardWeight?: PerChunk;
  /**
   * The time of a backward pass that runs both halves together. Default: the sum of the halves. It is shorter
   * than the sum if the halves share work. For example, the chunk with the head computes its logits in the
   * backward pass: once if both halves run together, and twice if they are separate.
   */
  readonly backward?: PerChunk;
  /**
   * The time from the end of a pass until another rank has received its result. Other passes run during this
   * time. Default: 0.
   */
  readonly communication?: number;
  /** The time of the optimizer step on each rank; default 0. */
  readonly optimizer?: number;
}

export interface SimulateOptions {
  readonly schedule: PipelineSchedule;
  readonly times?: PassTimes;
  readonly activations?: ActivationSizes;
  /**
   * True if every rank waits for all other ranks before its optimizer step, as clipping by the global
   * gradient norm and the overflow check of loss scaling require (arXiv 2401.10241, section 4). Default:
   * true.
   */
  readonly barrier?: boolean;
}

/** The passes and times of a rank in one step. */
export interface SimulatedRank {
  readonly passes: readonly TimedPass[];
  /**
   * The start of the rank's step, which ends `stepTime` later. With the barrier, it is 0. Without the
   * barrier, it is the start of the rank's first pass.
   */
  readonly stepStart: number;
  /** The time at which the rank's optimizer step starts. */
  readonly optimizerStart: number;
  /** The time that the rank spends in passes and in the optimizer step. */
  readonly busy: number;
  /** The rest of the step, in which the rank is idle. */
  readonly idle: number;
  readonly peak: PeakActivations;
}

export interface Simulation {
  readonly schedule: PipelineSchedule;
  /** The time at which the last pass of all ranks ends; the first pass starts at 0. */
  readonly makespan: number;
  /**
   * The time per step in a run of many steps. With the barrier, it is the makespan plus the optimizer step.
   * Without the barrier, each rank starts its next step independently, so it is the longest time from a
   * rank's first pass to the end of its optimizer step.
   */
  readonly stepTime: number;
  /**
   * Idle time divided by busy time, each summed over all ranks. Narayanan et al. 2021, section 2.2, call this
   * ratio t_pb / t_id.
   */
  readonly bubbleFraction: number;
  readonly hasBarrier: boolean;
  readonly optimizerTime: number;
  readonly ranks: readonly SimulatedRank[];
}

/**
 * Simulates a schedule. Every action starts as soon as its rank is free and its input has arrived (see
 * `runInOrder` for the assumptions about communication).
 *
 * @throws ConfigurationError `MTL_SCHEDULE_INVALID` (see `checkSchedule`); `MTL_SCHEDULE_TIMES` for a time or
 *   size that is negative or not a number, or a list that does not have one number for each chunk
 */
export function simulateSchedule(options: SimulateOptions): Simulation {
  const { schedule, times = {}, activations = {}, barrier = true } = options;
  assertSchedule(schedule);
  checkNumbers({ ...times, ...activations }, schedule.placement.length);
  const { communication = 0, optimizer = 0 } = times;
  const passTimes = timesByKind(times, schedule);
  const { passes } = runInOrder({
    schedule,
    duration: ({ kind, chunk }) => passTimes[kind](chunk),
    communication,
  });
  const findEnd = (order: readonly TimedPass[]): number => order.at(-1)?.end ?? 0;
  const makespan = Math.max(...passes.map(findEnd));
  const findStart = (order: readonly TimedPass[]): number => (barrier ? 0 : (order[0]?.start ?? 0));
  const spans = passes.map((order) => findEnd(order) - findStart(order));
  const stepTime = Math.max(...spans) + optimizer;
  const peaks = peakActivations(schedule, activations);
  const ranks = passes.map((order, rank): SimulatedRank => {
    const busy = order.reduce((sum, { start, end }) => sum + (end - start), optimizer);
    return {
      passes: order,
      stepStart: findStart(order),
      optimizerStart: barrier ? makespan : findEnd(order),
      busy,
      idle: stepTime - busy,
      peak: peaks[rank]!,
    };
  });
  const busy = ranks.reduce((sum, rank) => sum + rank.busy, 0);
  const idle = ranks.reduce((sum, rank) => sum + rank.idle, 0);
  return {
    schedule,
    makespan,
    stepTime,
    bubbleFraction: busy === 0 ? 0 : idle / busy,
    hasBarrier: barrier,
    optimizerTime: optimizer,
    ranks,
  };
}

function timesByKind(
  times: PassTimes,
  { placement }: PipelineSchedule,
): Readonly<Record<PassKind, (chunk: number) => number>> {
  const { forward = 1, backwardInput = 1, backwardWeight = 1, backward } = times;
  const numHeld = placement.map((rank) => placement.filter((other) => other === rank).length);
  const chooseTime = (time: PerChunk, chunk: number): number =>
    typeof time === 'number' ? time / numHeld[chunk]! : ofChunk(time, chunk);
  return {
    F: (chunk) => chooseTime(forward, chunk),
    I: (chunk) => chooseTime(backwardInput, chunk),
    W: (chunk) => chooseTime(backwardWeight, chunk),
    B: (chunk) =>
      backward === undefined
        ? chooseTime(backwardInput, chunk) + chooseTime(backwardWeight, chunk)
        : chooseTime(backward, chunk),
  };
}

function checkNumbers(values: Readonly<Record<string, PerChunk | undefined>>, numChunks: number): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const list = typeof value === 'number' ? [value] : value;
    if (typeof value !== 'number' && list.length !== numChunks) {
      throw new ConfigurationError(
        'MTL_SCHEDULE_TIMES',
        `${name} has ${list.length} values for ${numChunks} chunks`,
        { expected: `one number, or ${numChunks}` },
      );
    }
    const bad = list.find((number) => !Number.isFinite(number) || number < 0);
    if (bad === undefined) continue;
    throw new ConfigurationError('MTL_SCHEDULE_TIMES', `${name} cannot be ${bad}`, {
      expected: 'a number of 0 or more',
    });
  }
}
