import { availableParallelism } from 'node:os';
import { setNumThreads } from '@mtl/kernels';

/** Gives the kernels of a process their threads: as many as asked, or its share of the host's cores. */
export function setThreadsOfRank(
  threads: number | undefined,
  { localSize }: { readonly localSize: number },
): void {
  setNumThreads(threads ?? Math.max(1, Math.floor(availableParallelism() / localSize)), {
    // processes of a host would all pin theirs to the same cores
    pin: localSize === 1,
  });
}
