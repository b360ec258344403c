import { randomUUID } from 'node:crypto';
import { BroadcastChannel } from 'node:worker_threads';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { MtlError } from '@mtl/errors';
import { rankModule, rankThreads } from '@mtl/tooling/typescript-threads';
import type { RankFailure, RankReply, RankRequest, RunOnRequestArgument } from '../ranks/run-on-request.js';

/**
 * In-memory ranks that wait for requests: a rank's thread takes longer to start than a small model to train.
 * The first run in a world of a size starts its ranks. A failed run ends them, unless the world has one rank:
 * no other rank is then waiting in a collective.
 */
export class WaitingRanks<Argument, Result> {
  readonly #module: URL;
  /** The waiting ranks of each world, by world size. */
  readonly #worlds = new Map<number, WaitingWorld>();

  /** @param module its default export runs on every rank: (world, argument) to a result, both cloneable */
  constructor(module: URL) {
    this.#module = module;
  }

  /** Returns the results of all ranks, by rank. */
  async run(worldSize: number, argument: Argument): Promise<Result[]> {
    const world = this.#worlds.get(worldSize) ?? new WaitingWorld(worldSize, this.#module);
    this.#worlds.set(worldSize, world);
    const replies = await world.run(argument).catch(async (error: unknown) => {
      this.#worlds.delete(worldSize);
      await world.close();
      throw error;
    });
    return replies.map(({ result, failure }) => {
      if (failure !== undefined) throw restoreError(failure);
      return result as Result;
    });
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    await Promise.all([...this.#worlds.values()].map((world) => world.close()));
  }
}

function restoreError({ error, known }: RankFailure): unknown {
  if (known === undefined) return error;
  return new MtlError(known.code, (error as Error).message, { details: known.details, cause: error });
}

class WaitingWorld {
  readonly #channel = new BroadcastChannel(`ranks ${randomUUID()}`);
  readonly #replies = new Map<number, RankReply>();
  readonly #worldSize: number;
  readonly #ended: Promise<unknown>;
  #onReply: () => void = () => {};

  constructor(worldSize: number, module: URL) {
    this.#worldSize = worldSize;
    this.#channel.onmessage = (event) => {
      const reply = (event as { data: RankReply }).data;
      this.#replies.set(reply.rank, reply);
      this.#onReply();
    };
    const argument: RunOnRequestArgument = {
      channel: this.#channel.name,
      module: rankModule(module).href,
    };
    this.#ended = runInMemoryRanks({
      worldSize,
      ...rankThreads(new URL('../ranks/run-on-request.ts', import.meta.url)),
      argument,
      timeoutMs: 60_000,
    });
    this.#ended.catch(() => {}); // callers that wait for replies get the error
  }

  async run(argument: unknown): Promise<RankReply[]> {
    if (this.#replies.size < this.#worldSize) await this.#allReplies();
    this.#replies.clear();
    this.#channel.postMessage({ argument } satisfies RankRequest);
    await this.#allReplies();
    return Array.from({ length: this.#worldSize }, (_, rank) => this.#replies.get(rank)!);
  }

  async close(): Promise<void> {
    this.#channel.postMessage('end' satisfies RankRequest);
    await this.#ended.catch(() => {}); // a run that failed has reported it
    this.#channel.close();
  }

  async #allReplies(): Promise<void> {
    const complete = new Promise<void>((resolve) => {
      this.#onReply = () => {
        if (this.#replies.size === this.#worldSize) resolve();
      };
      this.#onReply();
    });
    // ranks that end before all have answered have failed
    await Promise.race([complete, this.#ended]);
  }
}
