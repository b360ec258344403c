import type { MarkOfRun } from '../src/api-types.js';
import type { RunData } from './run-data.js';
import type { State } from './state.js';

/** Returns the events of the focused run where its curves are shown, in the order of the axis. */
export function marksOfFocus({ focus, shown, view }: State, data: RunData): readonly MarkOfRun[] {
  if (!view.showsMarks || focus === undefined || !shown.includes(focus)) return [];
  const marks = data.series.get(focus)?.marks ?? [];
  return marks.filter(({ kind }) => kind !== 'reported' || view.showsReported).sort((a, b) => a.x - b.x);
}
