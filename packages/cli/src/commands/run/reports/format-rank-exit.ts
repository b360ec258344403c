import type { RankExit } from '../launcher/rank-process.js';

/** A rank's status or signal, and its last words where it had any. */
export function formatRankExit({ rank, status, signal, lastMessage }: RankExit): string {
  const how = signal === null ? `exit code ${status}` : `signal ${signal}`;
  return `rank ${rank} ended with ${how}${lastMessage === '' ? '' : `: ${lastMessage}`}`;
}
