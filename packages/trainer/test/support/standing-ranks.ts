import { randomUUID } from 'node:crypto';
import { BroadcastChannel } from 'node:worker_threads';
import type { World } from '@mtl/comm';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';

/** A requested run: `numRanks` ranks, the first of the world, take part; no other run has its id. */
interface Request<Argument> {
  readonly id: number;
  readonly numRanks: number;
  readonly argument: Argument;
}

/** The message of a rank that has started, with the id 0, or that has finished a run. */
interface Answer<Result> {
  readonly rank: number;
  readonly id: number;
  readonly result?: Result;
}

interface Message<Argument, Result> {
  readonly request?: Request<Argument> | 'stop';
  readonly answer?: Answer<Result>;
}

/** A run as one rank sees it. */
export interface StandingRun<Argument> extends Request<Argument> {
  readonly world: World;
}

/** Serves one rank of `StandingRanks`: executes the runs that the test requests, until it stops the ranks. */
export function serveRuns<Argument, Result>(
  world: World,
  { channel: name, run }: { channel: string; run: (asked: StandingRun<Argument>) => Promise<Result> },
): Promise<void> {
  const { rank } = world;
  const channel = new BroadcastChannel(name);
  const say = (answer: Answer<Result>): void => channel.postMessage({ answer });
  return new Promise((resolve, reject) => {
    channel.onmessage = (event: unknown) => {
      const { request } = (event as { data: Message<Argument, Result> }).data;
      if (request === 'stop') {
        channel.close();
        resolve();
      } else if (request !== undefined && rank < request.numRanks) {
        run({ ...request, world }).then((result) => say({ rank, id: request.id, result }), reject);
      }
    };
    say({ rank, id: 0 });
  });
}

/** Ranks that are running: the channel to them, and a promise of their end. */
interface Started {
  readonly channel: BroadcastChannel;
  readonly ready: Promise<unknown>;
  readonly ended: Promise<never[]>;
}

/**
 * Ranks as threads that are started once for the runs of a test file, since a start takes longer than a run.
 * They are restarted after a failed run.
 */
export class StandingRanks<Argument, Result> {
  readonly #module: URL;
  readonly #worldSize: number;
  #started: Started | undefined;
  #numRuns = 0;

  /** @param module its default export calls `serveRuns` with the channel that is its argument */
  constructor(module: URL, worldSize: number) {
    this.#module = module;
    this.#worldSize = worldSize;
  }

  /**
   * Requests a run from the first `numRanks` ranks; returns their results, by rank.
   *
   * @throws the error of the first rank that fails
   */
  async run(numRanks: number, argument: Argument): Promise<Result[]> {
    this.#started ??= this.#start();
    const { channel, ready, ended } = this.#started;
    try {
      await Promise.race([ready, ended]);
      const id = ++this.#numRuns;
      const answers = this.#answers(channel, { id, count: numRanks });
      channel.postMessage({ request: { id, numRanks, argument } });
      return await Promise.race([answers, ended]);
    } catch (error) {
      channel.close();
      this.#started = undefined;
      throw error;
    }
  }

  async stop(): Promise<void> {
    if (this.#started === undefined) return;
    const { channel, ended } = this.#started;
    channel.postMessage({ request: 'stop' });
    channel.close();
    await ended;
  }

  #start(): Started {
    const argument = randomUUID();
    const channel = new BroadcastChannel(argument);
    const ready = this.#answers(channel, { id: 0, count: this.#worldSize });
    const worldSize = this.#worldSize;
    const ended = runInMemoryRanks<never>({ ...rankThreads(this.#module), worldSize, argument });
    return { channel, ready, ended };
  }

  /** Waits for the answers of this number of ranks to the request with the id. */
  #answers(channel: BroadcastChannel, { id, count }: { id: number; count: number }): Promise<Result[]> {
    const results: Result[] = [];
    let numLeft = count;
    return new Promise((resolve) => {
      channel.onmessage = (event: unknown) => {
        const { answer } = (event as { data: Message<Argument, Result> }).data;
        if (answer?.id !== id) return;
        results[answer.rank] = answer.result as Result;
        numLeft -= 1;
        if (numLeft === 0) resolve(results);
      };
    });
  }
}
