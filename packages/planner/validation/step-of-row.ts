import { type ListedProfile, listedProfile, loadProfile, type StepOptions } from '../src/index.js';
import type { MeasuredRow } from './measured-row.js';

/** The step of a measured row, with the profile it names or with another that stands for it. */
export function stepOfRow(
  row: MeasuredRow,
  profile: ListedProfile = listedProfile(loadProfile(row.profile)),
): StepOptions {
  const { model, layout, scattersMessages, fusesKernels, shardsParameters } = row;
  const software = {
    ...profile.software,
    ...(scattersMessages === undefined ? {} : { scattersMessages }),
    ...(fusesKernels === undefined ? {} : { fusesKernels }),
    ...(shardsParameters === undefined ? {} : { shardsParameters }),
  };
  return { model, layout, profile: { ...profile, software } };
}
