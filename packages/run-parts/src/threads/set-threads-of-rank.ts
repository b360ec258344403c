import { setNumThreads } from '@mtl/kernels';
import type { ThreadChoice } from './choose-threads.js';
import { coresOfProcess } from './cores-of-process.js';

/** A process's share of the cores of its host. */
export const coresOfRank = (localSize: number): number =>
  Math.max(1, Math.floor(coresOfProcess() / localSize));

/** Gives the kernels of a process their threads: as many as asked, or its share of the host's cores. */
export function setThreadsOfRank(
  threads: number | undefined,
  { localSize }: { readonly localSize: number },
): ThreadChoice {
  const count = threads ?? coresOfRank(localSize);
  setNumThreads(count, {
    // processes of a host would all pin theirs to the same cores
    pin: localSize === 1,
  });
  const reason = threads === undefined ? 'one for each core of this process' : 'as --threads says';
  return { count, reason };
}
