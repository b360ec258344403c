import { SingleProcessGroup, type TakenTrace, type TraceEntry, type World } from '@mtl/comm';
import { type RecordedActivity, type StepListener, StepProfiler } from '@mtl/pipeline';
import { waitedSeconds } from './loop-extensions.js';
import type { OpenedRun } from './open-run.js';

/**
 * Returns the recorder for the steps in --profile-steps, which writes a trace of all ranks and each rank's
 * operations. Returns undefined without the flag. On CPUs, the planner's profiler also reports the time of
 * each operation, on the first rank. All ranks must call this function.
 */
export function trainingProfiler({
  configuration: { logging, parallel },
  world,
  processes,
  planning,
  onMessage,
}: OpenedRun): StepListener | undefined {
  const { profile } = logging;
  if (profile === undefined) return undefined;
  const trace = new StepProfiler({
    ...profile,
    group: world?.group ?? new SingleProcessGroup('world'),
    pipeline: processes.groups.pp,
    takeOperations: () => takeOperations(world),
  });
  if (parallel.device !== 'cpu') return trace;
  if (planning === undefined) {
    onMessage('--profile-steps: operations are not told of, which `planning` of @mtl/planning does');
    return trace;
  }
  const operations = planning.profileOperations({
    ...profile,
    waitedSeconds: () => waitedSeconds(processes.groups),
    // all ranks measure at the same time, because in a normal step they also share processor and memory
    onMessage,
  });
  return new BothListeners(operations, trace);
}

/** Combines two listeners. The times of the outer listener include the time that the inner listener takes. */
class BothListeners implements StepListener {
  readonly #inner: StepListener;
  readonly #outer: StepListener;

  constructor(inner: StepListener, outer: StepListener) {
    this.#inner = inner;
    this.#outer = outer;
  }

  beginStep(step: number): void {
    this.#outer.beginStep(step);
    this.#inner.beginStep(step);
  }

  span<Result>(activity: RecordedActivity, body: () => Result): Result {
    return this.#outer.span(activity, () => this.#inner.span(activity, body));
  }

  endStep(step: number): void {
    this.#inner.endStep(step);
    this.#outer.endStep(step);
  }
}

/**
 * Returns the operations of the process's groups since the last call. The worlds of a single process and of
 * threads do not record operations.
 */
function takeOperations(
  world: (World & { takeTrace?(): TakenTrace }) | undefined,
): readonly TraceEntry[] & { readonly numDropped?: number } {
  return world?.takeTrace?.() ?? [];
}
