import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommunicationError, MtlError } from '@mtl/errors';
import type { Store } from '../store/store.js';
import { LocalWorld } from '../world/local-world.js';
import type { World } from '../world.js';
import type { RankFunction } from './rank-thread.js';

/** The settings that `startLocalRanks` passes to a process. */
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

/** Runs a rank of this host as a process. */
export function runLocalRank(settings: LocalRankSettings): Promise<void> {
  const { module, argument, ...options } = settings;
  return runRank({ module, argument, join: () => joinLocalWorld(options) });
}

/** Joins a world whose ranks find each other through a folder. */
export function joinLocalWorld({
  directory,
  bufferBytes,
  ...options
}: Omit<LocalRankSettings, 'module' | 'argument'>): LocalWorld {
  const buffer = bufferBytes === undefined ? {} : { bufferBytes };
  return new LocalWorld({ ...options, ...buffer, store: new FileStore(directory) });
}

/** A store in a folder, for ranks of one host: one file per key. Waiting polls every few milliseconds. */
export class FileStore implements Store {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  set(key: string, value: Uint8Array): void {
    const path = this.#joinPath(key);
    writeFileSync(`${path}.part`, value);
    renameSync(`${path}.part`, path);
  }

  get(key: string, timeoutMs: number): Uint8Array {
    const deadline = performance.now() + timeoutMs;
    const nothing = new Int32Array(new SharedArrayBuffer(4));
    while (!existsSync(this.#joinPath(key))) {
      if (performance.now() > deadline) throw new CommunicationError('MTL_TIMEOUT', `no rank set ${key}`);
      Atomics.wait(nothing, 0, 0, 5);
    }
    return readFileSync(this.#joinPath(key));
  }

  #joinPath(key: string): string {
    return join(this.#directory, encodeURIComponent(key));
  }
}

export interface RunRankOptions {
  /** The module whose default export is called with the world and the argument. */
  readonly module: string;
  readonly argument: unknown;
  readonly join: () => World;
}

/**
 * Runs one rank of a test as a process: joins the world, calls the module, and prints one line of JSON,
 * {"result": ..., "engine": ...} or {"error": {...}}. After an error, the process ends with status 1, and
 * does not leave the job cleanly.
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
    // the process must not leave the job cleanly, because the other ranks must learn of its failure
    process.exitCode = 1;
    // a communication error reaches every rank through the rank's own operation, whose error has more details
    if (!(error instanceof CommunicationError)) world?.abort(error as Error);
  }
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
