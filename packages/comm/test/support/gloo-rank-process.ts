// One rank of a test over Gloo as a process; otherwise as rank-process.ts.
import {
  createGlooGroup,
  type GroupOptions,
  joinHost,
  NativeJob,
  type ProcessGroup,
  SingleProcessGroup,
  type World,
} from '@mtl/comm';
import { MtlError } from '@mtl/errors';
import { FileStore } from './file-store.js';

interface RankArguments {
  readonly module: string;
  readonly rank: number;
  readonly hosts: readonly number[];
  readonly directory: string;
  readonly timeoutMs: number;
  readonly abortGraceMs: number;
  readonly socketInterface?: string;
  readonly argument: unknown;
}

class GlooWorld implements World {
  readonly rank: number;
  readonly size: number;
  readonly group: ProcessGroup;
  readonly #options: RankArguments;
  readonly #store: FileStore;
  readonly #job: NativeJob;

  constructor(options: RankArguments) {
    const { rank, hosts, directory, abortGraceMs: graceMs } = options;
    this.rank = rank;
    this.size = hosts.length;
    this.#options = options;
    this.#store = new FileStore(directory);
    this.#job = new NativeJob(rank);
    const ranks = hosts.map((_, each) => each);
    joinHost({
      job: this.#job,
      ranks: ranks.filter((each) => hosts[each] === hosts[rank]),
      store: this.#store,
      key: `host/${hosts[rank]}`,
      timeoutMs: 30_000,
      graceMs,
    });
    this.group = this.createGroup({ name: 'world', ranks });
  }

  createGroup({ name, ranks }: GroupOptions): ProcessGroup {
    const { hosts, timeoutMs, socketInterface } = this.#options;
    if (ranks.length === 1) return new SingleProcessGroup(name, this.rank);
    return createGlooGroup({
      job: this.#job,
      name,
      ranks,
      hosts: ranks.map((rank) => hosts[rank]!),
      store: this.#store,
      keyPrefix: 'test',
      timeoutMs,
      socketInterface,
    });
  }

  abort(reason: Error): void {
    this.#job.abort(reason);
  }

  close(): void {
    this.#job.close();
  }
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
