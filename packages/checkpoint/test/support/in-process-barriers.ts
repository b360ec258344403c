import type { SaveBarrier } from '../../src/saving/save-checkpoint.js';

/** Returns barriers for `worldSize` ranks that live in one process, one per rank. */
export function inProcessBarriers(worldSize: number): SaveBarrier[] {
  let waiting: ((all: boolean) => void)[] = [];
  let all = true;
  return Array.from({ length: worldSize }, () => (succeeded: boolean) => {
    all &&= succeeded;
    return new Promise<boolean>((resolve) => {
      waiting.push(resolve);
      if (waiting.length < worldSize) return;
      const [release, outcome] = [waiting, all];
      waiting = [];
      all = true;
      for (const wake of release) wake(outcome);
    });
  });
}
