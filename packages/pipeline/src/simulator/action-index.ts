import type { PassKind, PipelineSchedule, ScheduleAction } from '../schedules/pipeline-schedule.js';
import type { Awaited } from './run-in-order.js';

const kinds: readonly PassKind[] = ['F', 'B', 'I', 'W'];

/** The position of each action of a schedule among those of its rank. */
export class ActionIndex {
  readonly #numMicroBatches: number;
  /** A map and not an array: a mistyped micro-batch number must not cost its size in memory. */
  readonly #positions = new Map<number, number>();
  /** Actions that came a second time. */
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
        const key = this.#keyOf(action);
        if (this.#positions.has(key)) repeated.push({ action, rank, position });
        else this.#positions.set(key, position);
      });
    });
    this.repeated = repeated;
  }

  #keyOf({ chunk, kind, microBatch }: ScheduleAction): number {
    return (chunk * this.#numMicroBatches + microBatch) * kinds.length + kinds.indexOf(kind);
  }

  /** Returns the index of the action among those of its rank; undefined when no rank runs it. */
  positionOf(action: ScheduleAction): number | undefined {
    return this.#positions.get(this.#keyOf(action));
  }

  /** Returns the action that makes a result: the chunk's F, or its B or I. */
  producerOf({ what, chunk }: Awaited, microBatch: number): ScheduleAction {
    if (what === 'forward') return { kind: 'F', chunk, microBatch };
    const whole: ScheduleAction = { kind: 'B', chunk, microBatch };
    return this.positionOf(whole) === undefined ? { ...whole, kind: 'I' } : whole;
  }
}
