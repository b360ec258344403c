import { Ranks, rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/internal';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns, on all ranks, the signal that has asked any rank to stop; undefined without a signal. All ranks
 * record it. All ranks call this, since only one rank knows a signal that came too late for the steps of a
 * run.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
