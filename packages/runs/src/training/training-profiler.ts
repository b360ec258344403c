import { SingleProcessGroup, type TakenTrace, type TraceEntry, type World } from '@mtl/comm';
import { resetPeakMemory, trimMemory } from '@mtl/kernels';
import { type RecordedActivity, type StepListener, StepProfiler } from '@mtl/pipeline';
import {
  formatStepProfile,
  measureRoofline,
  OperationProfile,
  type StepProfile,
} from '@mtl/planning/internal';
import { waitedSeconds } from './loop-extensions.js';
import type { OpenedRun } from './open-run.js';

/**
 * Returns the recorder of the steps that --profile-steps names: a trace of all ranks, and the operations of
 * each rank. None without the flag. On CPUs the first rank is told where the time went. All ranks call it.
 */
export function trainingProfiler({
  configuration: { logging, parallel },
  world,
  processes,
  onMessage,
}: OpenedRun): StepListener | undefined {
  const { profile } = logging;
  if (profile === undefined) return undefined;
  const trace = new StepProfiler({
    ...profile,
    group: world?.group ?? new SingleProcessGroup('world'),
    pipeline: processes.groups.pp,
    takeOperations: () => operationsOf(world),
  });
  if (parallel.device !== 'cpu') return trace;
  const operations = new OperationProfile({
    ...profile,
    waitedSeconds: () => waitedSeconds(processes.groups),
    // measured by all ranks at once, which share the processor and its memory
    onProfile: (steps) => onMessage(describe(steps)),
  });
  return new BothListeners(operations, trace);
}

function describe(steps: StepProfile): string {
  const computed = steps.operations.filter(({ flops }) => flops > 0).map(({ dtype }) => dtype);
  const roofline = measureRoofline(new Set(computed));
  // its tensors are none of the run's, whose steps reach their own peak again
  trimMemory('cpu');
  resetPeakMemory('cpu');
  return formatStepProfile(steps, roofline);
}

/** Tells two listeners; the spans of the second one hold those of the first. */
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
 * Returns the operations of a process's groups since the last call; worlds of one process or of threads keep
 * no record.
 */
function operationsOf(
  world: (World & { takeTrace?(): TakenTrace }) | undefined,
): readonly TraceEntry[] & { readonly numDropped?: number } {
  return world?.takeTrace?.() ?? [];
}
