export { InMemoryGroup, type InMemoryGroupOptions } from './in-memory-group.js';
export type { RankFunction } from './rank-thread.js';
export { type InMemoryRanksOptions, runInMemoryRanks } from './run-in-memory-ranks.js';
