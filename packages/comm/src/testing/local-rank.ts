import { LocalWorld } from '../local/local-world.js';
import { FileStore } from './file-store.js';
import { runRank } from './run-rank.js';

/** What a process of `startLocalRanks` is told. */
export interface LocalRankSettings {
  readonly module: string;
  readonly rank: number;
  readonly size: number;
  readonly directory: string;
  readonly timeoutMs: number;
  readonly joinTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly bufferBytes?: number | undefined;
  readonly argument: unknown;
}

/** One rank of this host as a process. */
export function runLocalRank(settings: LocalRankSettings): Promise<void> {
  const { module, argument, ...options } = settings;
  return runRank({ module, argument, join: () => joinLocalWorld(options) });
}

/** The world of ranks that find each other through a folder. */
export function joinLocalWorld({
  directory,
  bufferBytes,
  ...options
}: Omit<LocalRankSettings, 'module' | 'argument'>): LocalWorld {
  const buffer = bufferBytes === undefined ? {} : { bufferBytes };
  return new LocalWorld({ ...options, ...buffer, store: new FileStore(directory) });
}
