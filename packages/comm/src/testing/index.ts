export { CallbackWork, type CallbackWorkOptions } from '../awaitable-work.js';
export { InMemoryGroup, type InMemoryGroupOptions } from './in-memory-group.js';
export { FileStore, joinLocalWorld, type RunRankOptions, runRank } from './local-rank.js';
export { type LocalRanksOptions, runLocalRanks, startLocalRanks } from './local-ranks.js';
export {
  isRunning,
  type Outcome,
  type RankProcess,
  type RankProcessOptions,
  startRankProcess,
} from './rank-process.js';
export type { RankFunction } from './rank-thread.js';
export { type InMemoryRanksOptions, runInMemoryRanks } from './run-in-memory-ranks.js';
