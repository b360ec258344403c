import {
  type ListedProfile,
  listedProfile,
  loadProfile,
  predictStepTime,
  type StepPrediction,
} from '../src/index.js';
import type { MeasuredRow } from './measured-row.js';

/** Predicts a measured row, with the profile it names or with another that stands for it. */
export function predictRow(
  row: MeasuredRow,
  profile: ListedProfile = listedProfile(loadProfile(row.profile)),
): StepPrediction {
  const { model, layout, scattersMessages, fusesKernels, shardsParameters } = row;
  const software = {
    ...profile.software,
    ...(scattersMessages === undefined ? {} : { scattersMessages }),
    ...(fusesKernels === undefined ? {} : { fusesKernels }),
    ...(shardsParameters === undefined ? {} : { shardsParameters }),
  };
  return predictStepTime({ model, layout, profile: { ...profile, software } });
}
