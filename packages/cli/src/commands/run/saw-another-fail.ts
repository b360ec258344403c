import type { RankEnd } from './rank-process.js';

/** Its last words are what @mtl/comm says of another rank. */
export function sawAnotherFail({ lastMessage }: RankEnd): boolean {
  return /^error\[MTL_(RANK_DIED|RANK_LEFT|HEARTBEAT|TIMEOUT|ABORTED|STORE_LOST|WATCHDOG)\]/.test(
    lastMessage,
  );
}
