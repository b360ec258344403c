import { ConfigurationError } from '@mtl/errors';
import {
  formatAction,
  type PassKind,
  type PipelineSchedule,
  type ScheduleAction,
} from '../schedules/pipeline-schedule.js';
import { type Awaited, awaitedBy, runInOrder } from './run-in-order.js';

const passNames: Readonly<Record<PassKind, string>> = {
  F: 'forward',
  B: 'backward',
  I: 'input half of backward',
  W: 'weight half of backward',
};

/** A problem that prevents a schedule from running. */
export interface ScheduleProblem {
  /**
   * The kind of problem:
   * - `shape`: a placement or an action has a rank, chunk or micro-batch that does not exist
   * - `misplaced`: an action is on a different rank than its chunk
   * - `repeated`, `missing`: a micro-batch does not have exactly one F on a chunk, and exactly one B or one I
   *   and one W
   * - `order`: a pass comes before the pass on the same rank that makes its input
   * - `deadlock`: ranks wait for each other
   */
  readonly kind: 'shape' | 'misplaced' | 'repeated' | 'missing' | 'order' | 'deadlock';
  readonly message: string;
  readonly rank?: number;
  /** The action's index among the rank's actions. */
  readonly position?: number;
}

/**
 * The maximum number of reported problems. A longer list does not help the user, and after a mistyped large
 * number of micro-batches, the missing actions would fill the memory.
 */
const mostProblems = 20;

/**
 * Returns the first 20 problems of a schedule. An empty list proves that every chunk runs forward and
 * backward of every micro-batch exactly once, in an order that every rank can follow to the end. See
 * `runInOrder` for the assumptions about communication. A valid schedule may still block if receives are not
 * posted early, or if sends wait for their receives.
 */
export function checkSchedule(schedule: PipelineSchedule): readonly ScheduleProblem[] {
  const misshapen = shapeProblems(schedule);
  if (misshapen.length > 0) return misshapen;
  const index = new ActionIndex(schedule);
  // each check assumes that the previous check found no problem
  for (const check of [completenessProblems, orderProblems, deadlockProblems]) {
    const problems = check(schedule, index);
    if (problems.length > 0) return problems;
  }
  return [];
}

/** Schedules that have been found valid. In a dry run, many ranks check the same schedule. */
const valid = new WeakSet<PipelineSchedule>();

/** @throws ConfigurationError `MTL_SCHEDULE_INVALID` with the first problems of `checkSchedule` */
export function assertSchedule(schedule: PipelineSchedule): void {
  if (valid.has(schedule)) return;
  const problems = checkSchedule(schedule);
  if (problems.length === 0) {
    valid.add(schedule);
    return;
  }
  const [first] = problems;
  const more = problems.length === 1 ? '' : ` (and ${problems.length - 1} more)`;
  throw new ConfigurationError(
    'MTL_SCHEDULE_INVALID',
    `schedule ${schedule.name}: ${first!.message}${more}`,
    {
      details: { problems },
    },
  );
}

function shapeProblems({ numMicroBatches, placement, actions }: PipelineSchedule): ScheduleProblem[] {
  // a schedule returned by a user's function may lack these fields
  if (!Array.isArray(placement))
    return [{ kind: 'shape', message: 'its placement is no list of ranks, one for each chunk' }];
  if (!Array.isArray(actions) || !actions.every(Array.isArray))
    return [{ kind: 'shape', message: 'its actions are no list for each rank' }];
  const problems: ScheduleProblem[] = [];
  if (!Number.isSafeInteger(numMicroBatches) || numMicroBatches < 1) {
    problems.push({ kind: 'shape', message: `it has ${numMicroBatches} micro-batches` });
  }
  if (placement.length === 0) problems.push({ kind: 'shape', message: 'it has no chunks' });
  placement.forEach((rank, chunk) => {
    if (actions[rank] !== undefined) return;
    problems.push({ kind: 'shape', message: `chunk ${chunk} lies on rank ${rank} of ${actions.length}` });
  });
  actions.forEach((order, rank) => {
    order.forEach((action, position) => {
      if (problems.length >= mostProblems) return;
      const problem = actionProblem(action);
      if (problem !== undefined) {
        problems.push({ kind: 'shape', message: `rank ${rank} runs ${problem}`, rank, position });
        return;
      }
      const message = `rank ${rank} runs ${formatAction(action)}, but `;
      const home = placement[action.chunk];
      if (home === undefined || !isKnown(action, numMicroBatches)) {
        const has = `there are ${placement.length} chunks and ${numMicroBatches} micro-batches`;
        problems.push({ kind: 'shape', message: message + has, rank, position });
      } else if (home !== rank) {
        const lies = `chunk ${action.chunk} lies on rank ${home}`;
        problems.push({ kind: 'misplaced', message: message + lies, rank, position });
      }
    });
  });
  return problems.slice(0, mostProblems);
}

/** Returns a description of the problem if `action` is not an action; otherwise undefined. */
function actionProblem(action: ScheduleAction | null | undefined): string | undefined {
  if (typeof action !== 'object' || action === null)
    return `${JSON.stringify(action)}, which is no { kind, chunk, microBatch }`;
  const { kind } = action;
  if (kind === 'F' || kind === 'B' || kind === 'I' || kind === 'W') return undefined;
  return `${formatAction(action)}, but kinds of actions are F, B, I and W`;
}

function isKnown({ microBatch }: ScheduleAction, numMicroBatches: number): boolean {
  return Number.isSafeInteger(microBatch) && microBatch >= 0 && microBatch < numMicroBatches;
}

function completenessProblems(schedule: PipelineSchedule, index: ActionIndex): ScheduleProblem[] {
  const { numMicroBatches, placement } = schedule;
  const problems: ScheduleProblem[] = index.repeated.map(({ action, rank, position }) => ({
    kind: 'repeated',
    message: `rank ${rank} runs ${formatAction(action)} twice`,
    rank,
    position,
  }));
  for (let chunk = 0; chunk < placement.length; chunk++) {
    const rank = placement[chunk]!;
    for (let microBatch = 0; microBatch < numMicroBatches; microBatch++) {
      if (problems.length >= mostProblems) return problems.slice(0, mostProblems);
      const formatKind = (kind: PassKind): string => formatAction({ chunk, kind, microBatch });
      const has = (kind: PassKind): boolean => index.findPosition({ chunk, kind, microBatch }) !== undefined;
      const missing = (what: string): void => {
        problems.push({ kind: 'missing', message: `rank ${rank} never runs ${what}`, rank });
      };
      if (!has('F')) missing(formatKind('F'));
      const half = has('I') ? 'I' : 'W';
      if (has('B') && has(half)) {
        const position = index.findPosition({ chunk, kind: half, microBatch })!;
        const message = `rank ${rank} runs ${formatKind(half)} together with ${formatKind('B')}, which holds both halves`;
        problems.push({ kind: 'repeated', message, rank, position });
      } else if (!has('B') && !has(half)) {
        missing(
          `backward of ${formatKind('F')}: neither ${formatKind('B')}, nor ${formatKind('I')} and ${formatKind('W')}`,
        );
      } else if (!has('B') && !has('I')) missing(formatKind('I'));
      else if (!has('B') && !has('W')) missing(formatKind('W'));
    }
  }
  return problems.slice(0, mostProblems);
}

function orderProblems({ placement, actions }: PipelineSchedule, index: ActionIndex): ScheduleProblem[] {
  const problems: ScheduleProblem[] = [];
  actions.forEach((order, rank) => {
    order.forEach((action, position) => {
      for (const awaited of awaitedBy(action, placement.length)) {
        if (placement[awaited.chunk] !== rank) continue;
        const producer = index.findProducer(awaited, action.microBatch);
        if (index.findPosition(producer)! < position) continue;
        const message = `rank ${rank} runs ${formatAction(action)} before ${formatAction(producer)}`;
        problems.push({ kind: 'order', message, rank, position });
      }
    });
  });
  return problems.slice(0, mostProblems);
}

function deadlockProblems(schedule: PipelineSchedule, index: ActionIndex): ScheduleProblem[] {
  const { placement, actions } = schedule;
  // the durations do not matter, because they do not affect whether a schedule can run to its end
  const { passes, isDone } = runInOrder({ schedule, duration: () => 1, communication: 0 });
  const problems: ScheduleProblem[] = [];
  actions.forEach((order, rank) => {
    const position = passes[rank]!.length;
    const action = order[position];
    if (action === undefined) return;
    const waits = awaitedBy(action, placement.length)
      .filter((awaited) => !isDone(awaited, action.microBatch))
      .map((awaited) => {
        const producer = formatAction(index.findProducer(awaited, action.microBatch));
        return `${producer} of rank ${placement[awaited.chunk]}`;
      });
    const message =
      `deadlock: rank ${rank} cannot run ${formatAction(action)} (${passNames[action.kind]} of micro-batch ` +
      `${action.microBatch} on chunk ${action.chunk}); it waits for ${waits.join(' and ')}, which never runs`;
    problems.push({ kind: 'deadlock', message, rank, position });
  });
  return problems.slice(0, mostProblems);
}

const kinds: readonly PassKind[] = ['F', 'B', 'I', 'W'];

/** Maps each action to its position among its rank's actions. */
class ActionIndex {
  readonly #numMicroBatches: number;
  /** a map instead of an array, so that a mistyped large micro-batch number does not allocate memory */
  readonly #positions = new Map<number, number>();
  /** Actions that occur a second time. */
  readonly repeated: ReadonlyArray<{
    readonly action: ScheduleAction;
    readonly rank: number;
    readonly position: number;
  }>;

  constructor({ actions, numMicroBatches }: PipelineSchedule) {
    this.#numMicroBatches = numMicroBatches;
    const repeated: Array<ActionIndex['repeated'][number]> = [];
    actions.forEach((order, rank) => {
      order.forEach((action, position) => {
        const key = this.#computeKey(action);
        if (this.#positions.has(key)) repeated.push({ action, rank, position });
        else this.#positions.set(key, position);
      });
    });
    this.repeated = repeated;
  }

  #computeKey({ chunk, kind, microBatch }: ScheduleAction): number {
    return (chunk * this.#numMicroBatches + microBatch) * kinds.length + kinds.indexOf(kind);
  }

  /** Returns the action's position among its rank's actions; undefined if no rank has the action. */
  findPosition(action: ScheduleAction): number | undefined {
    return this.#positions.get(this.#computeKey(action));
  }

  /**
   * Returns the action that produces the awaited result: the chunk's F for a forward result, its B or I for a
   * gradient.
   */
  findProducer({ what, chunk }: Awaited, microBatch: number): ScheduleAction {
    if (what === 'forward') return { kind: 'F', chunk, microBatch };
    const whole: ScheduleAction = { kind: 'B', chunk, microBatch };
    return this.findPosition(whole) === undefined ? { ...whole, kind: 'I' } : whole;
  }
}
