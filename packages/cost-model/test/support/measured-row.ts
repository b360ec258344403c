import {
  type Layout,
  listedProfile,
  loadProfile,
  type ModelSize,
  type StepOptions,
} from '../../src/index.js';
import type { ListedProfile } from '../../src/profiles/profile.js';

/** A measured step with the settings in its source. */
export interface MeasuredRow {
  readonly set: string;
  readonly name: string;
  readonly profile: string;
  readonly model: ModelSize;
  readonly layout: Layout;
  readonly seconds: number;
  /** Speed of a GPU in the source, if seconds are computed from it. */
  readonly teraflops?: number;
  /** True if constants of profiles are fitted on this row. */
  readonly fitted: boolean;
  /** Settings of the software that differ from the profile's. */
  readonly scattersMessages?: boolean;
  readonly fusesKernels?: boolean;
  readonly tensorOverlap?: 'none' | 'backward' | 'all';
}

/** Returns the step of a measured row, with the profile that it names or with a replacement. */
export function stepOfRow(
  row: MeasuredRow,
  profile: ListedProfile = listedProfile(loadProfile(row.profile)),
): StepOptions {
  const { model, layout, scattersMessages, fusesKernels, tensorOverlap } = row;
  const software = {
    ...profile.software,
    ...(scattersMessages === undefined ? {} : { scattersMessages }),
    ...(fusesKernels === undefined ? {} : { fusesKernels }),
    ...(tensorOverlap === undefined ? {} : { tensorOverlap }),
  };
  return { model, layout, profile: { ...profile, software } };
}

export interface PredictedRow extends MeasuredRow {
  readonly predicted: number;
}

/** Returns the mean and the largest error of predictions, as fractions of the measured seconds. */
export function summarizeErrors(rows: readonly PredictedRow[]): {
  readonly mean: number;
  readonly most: number;
} {
  const errors = rows.map(({ seconds, predicted }) => Math.abs(predicted / seconds - 1));
  return { mean: errors.reduce((sum, error) => sum + error, 0) / errors.length, most: Math.max(...errors) };
}
