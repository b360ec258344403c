import type { MarkOfRun } from '../src/api-types.js';
import { formatNumber } from './format.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';

/** What is marked on the curves, in words: "step 1,200 of example: checkpoint". */
export interface RunMark extends Pick<MarkOfRun, 'kind' | 'x'> {
  readonly label: string;
}

/** What is marked on the curves that are shown, in their order on the axis. */
export function marksOfShown(state: State, data: RunData): readonly RunMark[] {
  if (!state.showsMarks) return [];
  const marks = state.shown.flatMap((run) =>
    (data.series.get(run)?.marks ?? []).map(({ kind, x, iteration, text }) => ({
      kind,
      x,
      label: `step ${formatNumber(iteration)} of ${run}: ${text}`,
    })),
  );
  return marks.sort((a, b) => a.x - b.x);
}
