import { parentPort } from 'node:worker_threads';
import { MtlError } from '@mtl/errors';
import type { GroupOptions, World } from '../world.js';
import { InMemoryGroup } from './in-memory-group.js';
import { type ChannelEnds, MessageChannels } from './message-channels.js';

/** The data that a worker thread of `runInMemoryRanks` receives at its start. */
export interface RankThreadData {
  readonly rank: number;
  readonly worldSize: number;
  readonly module: string;
  readonly preload: string | undefined;
  /** A module whose `register` lets the thread import TypeScript. */
  readonly loader: string | undefined;
  readonly argument: unknown;
  readonly timeoutMs: number;
  readonly ends: ChannelEnds;
}

/** The default export of the module given to `runInMemoryRanks`. */
export type RankFunction<Argument = unknown, Result = unknown> = (
  world: World,
  argument: Argument,
) => Result | Promise<Result>;

/** The fields of a rank's MtlError that are needed to recreate it in a different thread. */
export interface KnownError {
  readonly family: string;
  readonly code: `MTL_${string}`;
  readonly details: Readonly<Record<string, unknown>>;
}

/** Runs one rank's function and reports its result, or its error, to the thread that started it. */
export async function runRankThread(data: RankThreadData): Promise<void> {
  try {
    const { default: run } = (await import(data.module)) as { default: RankFunction };
    const result = await run(inMemoryWorld(data), data.argument);
    parentPort!.postMessage({ result });
  } catch (error) {
    // cloning turns an error into a plain Error, so its code and details are sent separately
    const known = MtlError.isInstance(error)
      ? { family: error.name, code: error.code, details: error.details }
      : undefined;
    parentPort!.postMessage({ error, known });
  }
}

function inMemoryWorld({ rank, worldSize, timeoutMs, ends }: RankThreadData): World {
  const channels = new MessageChannels(ends, rank);
  const createGroup = ({ name, ranks }: GroupOptions): InMemoryGroup =>
    new InMemoryGroup({ name, ranks, worldRank: rank, channels, timeoutMs });
  const group = createGroup({ name: 'world', ranks: Array.from({ length: worldSize }, (_, other) => other) });
  return {
    rank,
    size: worldSize,
    group,
    createGroup,
    abort: (reason) => {
      throw reason;
    },
    close: () => {},
    [Symbol.dispose]: () => {},
  };
}
