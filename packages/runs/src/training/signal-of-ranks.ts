import { Ranks } from '@mtl/trainer/internal';
import { rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/stop-signals';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns the stop signal that any rank has received, on all ranks; undefined without a signal. All ranks
 * call this and record the signal. Only one rank may know of a signal that arrived after the last step.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
