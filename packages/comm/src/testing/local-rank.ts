import { MtlError } from '@mtl/errors';
import { LocalWorld } from '../local/local-world.js';
import type { World } from '../world.js';
import { FileStore } from './file-store.js';
import type { RankFunction } from './rank-thread.js';

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

/**
 * One rank as a process: joins, calls the module's default export, and prints one line of JSON: {"result": ...} or
 * {"error": {...}}. Ends with 1 after an error, without leaving in order.
 */
export async function runLocalRank({
  module,
  directory,
  argument,
  ...options
}: LocalRankSettings): Promise<void> {
  let world: World | undefined;
  try {
    const { default: run } = (await import(module)) as { default: RankFunction };
    const { bufferBytes, ...rest } = options;
    const buffer = bufferBytes === undefined ? {} : { bufferBytes };
    world = new LocalWorld({ ...rest, ...buffer, store: new FileStore(directory) });
    print({ result: (await run(world, argument)) ?? null });
    world.close();
  } catch (error) {
    const { message } = error as Error;
    const known = MtlError.isInstance(error) ? { code: error.code, details: error.details } : {};
    print({ error: { message, ...known }, at: Date.now() });
    // the failure must reach the others through the operation, not through an orderly end
    process.exitCode = 1;
    if (!MtlError.isInstance(error)) world?.abort(error as Error);
  }
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
