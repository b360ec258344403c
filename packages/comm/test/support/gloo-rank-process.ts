// One rank of a test over Gloo as a process; otherwise as src/testing/local-rank.ts.
import type { World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { GlooWorld, type GlooWorldOptions } from './gloo-world.js';

interface RankArguments extends GlooWorldOptions {
  readonly module: string;
  readonly argument: unknown;
}

const options = JSON.parse(process.argv[2]!) as RankArguments;

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

let world: World | undefined;
try {
  const { default: run } = (await import(options.module)) as {
    default: (world: World, argument: unknown) => unknown;
  };
  world = new GlooWorld(options);
  print({ result: (await run(world, options.argument)) ?? null, engine: world.group.engine });
  world.close();
} catch (error) {
  const { message } = error as Error;
  const known = MtlError.isInstance(error) ? { code: error.code, details: error.details } : {};
  print({ error: { message, ...known }, at: Date.now() });
  process.exitCode = 1;
  if (!MtlError.isInstance(error)) world?.abort(error as Error);
}
