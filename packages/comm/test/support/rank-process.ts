// One rank of a test as a process: joins, calls the module's default export as `runInMemoryRanks` does, and prints one
// line of JSON: {"result": ...} or {"error": {...}}. Exits with 1 after an error, without leaving in order.
import { LocalWorld, type World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { FileStore } from './file-store.js';

interface RankArguments {
  readonly module: string;
  readonly rank: number;
  readonly size: number;
  readonly directory: string;
  readonly timeoutMs: number;
  readonly joinTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly bufferBytes?: number;
  readonly argument: unknown;
}

const { module, directory, argument, ...options } = JSON.parse(process.argv[2]!) as RankArguments;

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

let world: World | undefined;
try {
  const { default: run } = (await import(module)) as {
    default: (world: World, argument: unknown) => unknown;
  };
  world = new LocalWorld({ ...options, store: new FileStore(directory) });
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
