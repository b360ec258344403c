import { Ranks } from '@mtl/trainer/internal';
import { rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/stop-signals';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns, on all ranks, the stop signal that any rank has received; undefined without a signal. All ranks
 * record it, and all must call this. A signal that came after the last step of a run is known to only one
 * rank until then.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
