import type { PipelineSchedule, ScheduleAction } from '../schedules/pipeline-schedule.js';

/** A pass with its start and end, in the time unit of the durations. */
export interface TimedPass {
  readonly action: ScheduleAction;
  readonly start: number;
  readonly end: number;
}

/**
 * A result that a pass waits for: the output of a chunk's forward pass, or the gradient of a chunk's input.
 */
export interface Awaited {
  readonly what: 'forward' | 'gradient';
  readonly chunk: number;
}

interface RunInOrderOptions {
  readonly schedule: PipelineSchedule;
  /** Returns how long an action runs. */
  readonly duration: (action: ScheduleAction) => number;
  /**
   * The time from the end of a pass until another rank can use the result. Between chunks on the same rank,
   * this time is 0.
   */
  readonly communication: number;
}

/** The passes that could run, and the progress of each rank. */
interface RunInOrder {
  /** The passes of each rank. In a deadlock, a rank has fewer passes than actions. */
  readonly passes: ReadonlyArray<readonly TimedPass[]>;
  /**
   * Returns true if the given result existed at the end. Reports use this function to find the missing result
   * for which a rank waits.
   */
  readonly isDone: (awaited: Awaited, microBatch: number) => boolean;
}

/**
 * Returns the results, from any rank, that must exist before `action` can start. The rank's own order of
 * actions is a further condition, which is not included.
 */
export function awaitedBy(action: ScheduleAction, numChunks: number): readonly Awaited[] {
  const { kind, chunk } = action;
  if (kind === 'F') return chunk === 0 ? [] : [{ what: 'forward', chunk: chunk - 1 }];
  if (kind === 'W') return [{ what: 'gradient', chunk }];
  const forward: Awaited = { what: 'forward', chunk };
  return chunk === numChunks - 1 ? [forward] : [forward, { what: 'gradient', chunk: chunk + 1 }];
}

/**
 * Runs the actions of every rank in order. An action starts as soon as the rank is free and the input exists.
 * Times do not depend on the order in which the loop visits ranks, because a rank has exactly one next
 * action.
 *
 * The assumptions are: sends cost the sender no time, and no rank waits until a send has finished; receives
 * are posted early, so that no sender waits for a receive, and a result may wait in memory; and transfers do
 * not slow each other down.
 */
export function runInOrder(options: RunInOrderOptions): RunInOrder {
  const { schedule, duration, communication } = options;
  const { placement, numMicroBatches, actions } = schedule;
  const numChunks = placement.length;
  const ends = {
    forward: new Float64Array(numChunks * numMicroBatches).fill(Number.NaN),
    gradient: new Float64Array(numChunks * numMicroBatches).fill(Number.NaN),
  };
  const passes: TimedPass[][] = actions.map(() => []);
  const free = actions.map(() => 0);

  /** Returns the time at which all inputs of the action exist; NaN if it is not known yet. */
  const readyAt = (action: ScheduleAction): number => {
    const rank = placement[action.chunk]!;
    let ready = 0;
    for (const { what, chunk } of awaitedBy(action, numChunks)) {
      const end = ends[what][chunk * numMicroBatches + action.microBatch]!;
      const arrival = placement[chunk] === rank ? end : end + communication;
      if (Number.isNaN(arrival)) return arrival;
      ready = Math.max(ready, arrival);
    }
    return ready;
  };

  /** Runs the actions of `rank` until it must wait. Returns true if any action ran. */
  const advance = (rank: number): boolean => {
    const order = actions[rank]!;
    const done = passes[rank]!;
    const before = done.length;
    while (done.length < order.length) {
      const action = order[done.length]!;
      const ready = readyAt(action);
      if (Number.isNaN(ready)) break;
      const start = Math.max(ready, free[rank]!);
      const end = start + duration(action);
      done.push({ action, start, end });
      free[rank] = end;
      const index = action.chunk * numMicroBatches + action.microBatch;
      if (action.kind === 'F') ends.forward[index] = end;
      else if (action.kind !== 'W') ends.gradient[index] = end;
    }
    return done.length > before;
  };

  let progress = true;
  while (progress) {
    progress = false;
    for (let rank = 0; rank < actions.length; rank++) if (advance(rank)) progress = true;
  }
  return {
    passes,
    isDone: ({ what, chunk }, microBatch) => !Number.isNaN(ends[what][chunk * numMicroBatches + microBatch]!),
  };
}
