export interface RunOutcome {
  /** Whether all steps are there, and all finite. */
  readonly isWhole: boolean;
  readonly last: number;
  readonly rise: number;
}

export const window: number;
export function runOutcome(run: {
  readonly losses: readonly number[];
  readonly numSteps: number;
}): RunOutcome;
export function smoothed(losses: readonly number[]): { step: number; loss: number }[];
