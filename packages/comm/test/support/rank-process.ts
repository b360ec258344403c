// One rank of a test as a process: joins, calls the module's default export as `runInMemoryRanks` does, and prints one
// line of JSON: {"result": ..., "engine": ...} or {"error": {...}}. Exits with 1 after an error, without leaving in order.
import { LocalWorld, type World } from '@mtl/comm';
import { FileStore } from '@mtl/comm/testing';
import { MtlError } from '@mtl/errors';
import { GlooWorld } from './gloo-world.js';
import type { RankSettings } from './ranks.js';

const settings = JSON.parse(process.argv[2]!) as RankSettings;

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function join(): World {
  const { hosts, directory, bufferBytes, ...options } = settings;
  if (hosts !== undefined) return new GlooWorld({ ...options, hosts, directory });
  const buffers = bufferBytes === undefined ? {} : { bufferBytes };
  return new LocalWorld({ ...options, ...buffers, store: new FileStore(directory) });
}

let world: World | undefined;
try {
  const { default: run } = (await import(settings.module)) as {
    default: (world: World, argument: unknown) => unknown;
  };
  world = join();
  print({ result: (await run(world, settings.argument)) ?? null, engine: world.group.engine });
  world.close();
} catch (error) {
  const { message } = error as Error;
  const known = MtlError.isInstance(error) ? { code: error.code, details: error.details } : {};
  print({ error: { message, ...known }, at: Date.now() });
  // the failure must reach the others through the operation, not through an orderly end
  process.exitCode = 1;
  if (!MtlError.isInstance(error)) world?.abort(error as Error);
}
