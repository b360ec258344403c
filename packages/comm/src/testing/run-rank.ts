import { CommunicationError, MtlError } from '@mtl/errors';
import type { World } from '../world.js';
import type { RankFunction } from './rank-thread.js';

export interface RunRankOptions {
  /** Its default export is called with the world and the argument. */
  readonly module: string;
  readonly argument: unknown;
  readonly join: () => World;
}

/**
 * One rank of a test as a process: joins, calls the module, and prints one line of JSON: {"result": ...,
 * "engine": ...} or {"error": {...}}. Ends with 1 after an error, without leaving in order.
 */
export async function runRank({ module, argument, join }: RunRankOptions): Promise<void> {
  let world: World | undefined;
  try {
    const { default: run } = (await import(module)) as { default: RankFunction };
    world = join();
    print({ result: (await run(world, argument)) ?? null, engine: world.group.engine });
    world.close();
  } catch (error) {
    const { message } = error as Error;
    const known = MtlError.isInstance(error) ? { code: error.code, details: error.details } : {};
    print({ error: { message, ...known }, at: Date.now() });
    // the failure must reach the others through the operation, not through an orderly end
    process.exitCode = 1;
    // a communication error reaches each rank through its own operation, with its details
    if (!(error instanceof CommunicationError)) world?.abort(error as Error);
  }
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
