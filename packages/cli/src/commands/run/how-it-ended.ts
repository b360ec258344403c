import type { RankEnd } from './rank-process.js';

/** A rank's status or signal, and its last words where it had any. */
export function howItEnded({ rank, status, signal, lastMessage }: RankEnd): string {
  const how = signal === null ? `exit code ${status}` : `signal ${signal}`;
  return `rank ${rank} ended with ${how}${lastMessage === '' ? '' : `: ${lastMessage}`}`;
}
