export { CallbackWork, type CallbackWorkOptions } from '../awaitable-work.js';
export { FileStore } from './file-store.js';
export { InMemoryGroup, type InMemoryGroupOptions } from './in-memory-group.js';
export { joinLocalWorld } from './local-rank.js';
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
export { type RunRankOptions, runRank } from './run-rank.js';
