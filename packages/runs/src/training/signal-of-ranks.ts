import { Ranks } from '@mtl/trainer/internal';
import { rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/stop-signals';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns the stop signal that any rank has received, on all ranks; undefined without a signal. All ranks
 * call this and record the signal. This is necessary because, after the last step, only one rank may have
 * received a signal.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
