import { setNumThreads } from '@mtl/kernels';
import { coresOfProcess } from './cores-of-process.js';

/** A process's share of the cores of its host. */
export const coresOfRank = (localSize: number): number =>
  Math.max(1, Math.floor(coresOfProcess() / localSize));

/** Gives the kernels of a process their threads: as many as asked, or its share of the host's cores. */
export function setThreadsOfRank(
  threads: number | undefined,
  { localSize }: { readonly localSize: number },
): void {
  setNumThreads(threads ?? coresOfRank(localSize), {
    // processes of a host would all pin theirs to the same cores
    pin: localSize === 1,
  });
}
