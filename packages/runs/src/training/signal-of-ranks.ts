import { Ranks, rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/internal';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns the signal that has asked any rank to stop, on all ranks, which keep it; undefined where none has.
 * All ranks call it: one that came too late for the steps of a run is known to the rank that got it alone.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
