import { type OptionCheck, objectOption, required, textOption, wholeNumberOption } from '@mtl/errors/options';

/** Checks the processes of a job. */
export const worldOption: OptionCheck<false> = objectOption('a world, as joinWorld returns it', {
  rank: required(wholeNumberOption(0)),
  size: required(wholeNumberOption(1)),
});

/** Checks a process's rank on its host and the number of processes on the host. */
export const localOption: OptionCheck<false> = objectOption('the place of a process on its host', {
  rank: required(wholeNumberOption(0)),
  size: required(wholeNumberOption(1)),
});

/** Checks the job of a run. */
export const jobOption: OptionCheck<false> = objectOption('a job', {
  id: textOption,
  restartCount: required(wholeNumberOption(0)),
});

/** Checks a run's `TrainingProcesses`. */
export const processesOption: OptionCheck<false> = objectOption('the TrainingProcesses of a run', {
  mesh: required(objectOption('the mesh of the processes')),
  groups: required(objectOption('the groups of the processes')),
});
