import { Ranks } from '@mtl/trainer/internal';
import { rememberStopSignal, stopSignal, stopSignalNames } from '@mtl/trainer/stop-signals';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';

/**
 * Returns, on all ranks, the stop signal that any rank has received; undefined if none has. All ranks must
 * call this function, which also records the signal on every rank. This is necessary because, after the last
 * step, a signal may have reached only one rank.
 */
export function signalOfRanks({ groups }: Pick<TrainingProcesses, 'groups'>): NodeJS.Signals | undefined {
  const own = stopSignal();
  const numAsked = new Ranks({ groups }).sum(stopSignalNames.map((name) => Number(name === own)));
  const signal = stopSignalNames.find((_, index) => numAsked[index]! > 0);
  if (signal !== undefined) rememberStopSignal(signal);
  return signal;
}
