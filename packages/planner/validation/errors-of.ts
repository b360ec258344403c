import type { MeasuredRow } from './measured-row.js';

export interface PredictedRow extends MeasuredRow {
  readonly predicted: number;
}

/** Mean and largest error of predictions, as parts of what was measured. */
export function errorsOf(rows: readonly PredictedRow[]): { readonly mean: number; readonly most: number } {
  const errors = rows.map(({ seconds, predicted }) => Math.abs(predicted / seconds - 1));
  return { mean: errors.reduce((sum, error) => sum + error, 0) / errors.length, most: Math.max(...errors) };
}
