import type { RunRecord } from '@mtl/run-records';
import type { Axis, MarkKind, MarkOfRun, StateOfRun } from './api-types.js';
import type { RunIndex } from './run-index.js';

export interface MarksOfRunOptions {
  readonly index: RunIndex;
  readonly axis: Axis;
  readonly starts: RunRecord['starts'];
  readonly state: StateOfRun;
  /** The iterations of the checkpoints in the folder. */
  readonly checkpoints: readonly number[];
}

type Mark = Omit<MarkOfRun, 'x'>;

/** The largest number of marks of one kind, which is more than a chart has room for. */
const mostOfKind = 200;
const mostText = 300;

/** Returns the marks for the curves of a run: checkpoints, starts and ends, and events in its metrics. */
export function marksOfRun(options: MarksOfRunOptions): readonly MarkOfRun[] {
  const marks = [
    ...latest(options.checkpoints.map((iteration) => mark('checkpoint', iteration, 'checkpoint saved'))),
    ...latest(startMarks(options)),
    ...eventMarks(options.index),
    ...skippedMarks(options.index),
  ].sort((a, b) => a.iteration - b.iteration);
  const { index, axis } = options;
  const places = index.places(
    Float64Array.from(marks, ({ iteration }) => iteration),
    axis,
  );
  return marks.map((one, at) => ({ ...one, x: places[at]! }));
}

const latest = (marks: readonly Mark[]): readonly Mark[] => marks.slice(-mostOfKind);

function mark(kind: MarkKind, iteration: number, text: string): Mark {
  return { kind, iteration, text: text.length > mostText ? `${text.slice(0, mostText)}...` : text };
}

function startMarks({ starts, state, index }: MarksOfRunOptions): readonly Mark[] {
  return starts.flatMap(({ iteration, host, end }, number) => {
    const restart = number === 0 ? [] : [mark('restart', iteration, `started again on ${host}`)];
    if (end?.reason === 'failed') {
      return [...restart, mark('error', end.iteration, end.error ?? 'failed')];
    }
    const isKilled = end === undefined && number === starts.length - 1 && state === 'failed';
    const last = index.steps.iterations.at(-1) ?? iteration;
    return isKilled ? [...restart, mark('error', last, 'its process was killed')] : restart;
  });
}

function eventMarks({ events }: RunIndex): readonly Mark[] {
  return events.map(({ kind, iteration, text }) => mark(kind, iteration, text));
}

/**
 * Returns marks of steps without an update. Skipped spikes are left out, because they have marks of a
 * different kind.
 */
function skippedMarks({ steps, events }: RunIndex): readonly Mark[] {
  const skipped = steps.column('skipped');
  const spikes = new Set(events.flatMap(({ type, iteration }) => (type === 'spike' ? [iteration] : [])));
  const marks: Mark[] = [];
  for (let at = (skipped?.length ?? 0) - 1; at >= 0 && marks.length < mostOfKind; at--) {
    const iteration = steps.iterations[at]!;
    if (skipped![at] === 1 && !spikes.has(iteration)) {
      marks.push(mark('skipped', iteration, 'step without an update'));
    }
  }
  return marks;
}
