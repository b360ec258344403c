import type { RankExit } from '../launcher/rank-process.js';

/** Codes of @mtl/comm, and of a save that all ranks make together, that blame another rank. */
const blamesAnother =
  /^error\[MTL_(RANK_DIED|RANK_LEFT|HEARTBEAT|TIMEOUT|ABORTED|STORE_LOST|WATCHDOG|CHECKPOINT_PEER)\]/;
/**
 * The message of a wait that failed because another rank ended with an error; it has the code of that error.
 */
const tellsOfAnother = /, rank \d+ waited [\d.]+ s: rank \d+ failed: /;

/** Its last words are about another rank that failed. */
export function blamesAnotherRank({ lastMessage }: RankExit): boolean {
  return blamesAnother.test(lastMessage) || tellsOfAnother.test(lastMessage);
}
