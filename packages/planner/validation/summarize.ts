import type { MeasuredRow } from './measured-row.js';

export interface PredictedRow extends MeasuredRow {
  readonly predicted: number;
}

/** Mean and largest error of predictions, as parts of what was measured. */
export function errorsOf(rows: readonly PredictedRow[]): { readonly mean: number; readonly most: number } {
  const errors = rows.map(({ seconds, predicted }) => Math.abs(predicted / seconds - 1));
  return { mean: errors.reduce((sum, error) => sum + error, 0) / errors.length, most: Math.max(...errors) };
}

/** A line for each set, fitted and held-out rows apart. */
export function summarize(rows: readonly PredictedRow[]): string[] {
  const percent = (part: number): string => `${(100 * part).toFixed(1).padStart(5)} %`;
  return [...new Set(rows.map(({ set }) => set))].flatMap((set) =>
    [true, false].flatMap((fitted) => {
      const members = rows.filter((row) => row.set === set && row.fitted === fitted);
      if (members.length === 0) return [];
      const { mean, most } = errorsOf(members);
      const kind = fitted ? 'fitted' : 'held out';
      return [
        `${set.padEnd(24)} ${kind.padEnd(8)} ${String(members.length).padStart(3)} rows  mean ${percent(mean)}  most ${percent(most)}`,
      ];
    }),
  );
}
