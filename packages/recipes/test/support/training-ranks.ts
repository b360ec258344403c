import { randomUUID } from 'node:crypto';
import { BroadcastChannel } from 'node:worker_threads';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import type { TrainGptArgument, TrainGptResult } from '../ranks/train-gpt.js';
import type { TrainingReply, TrainingRequest } from '../ranks/train-on-request.js';

/**
 * In-memory ranks that wait for training runs: a rank's thread takes longer to start than a small model to
 * train. A training run that fails ends them.
 */
export class TrainingRanks {
  readonly #channel = new BroadcastChannel(`trainings ${randomUUID()}`);
  readonly #replies = new Map<number, TrainingReply>();
  readonly #worldSize: number;
  readonly #ended: Promise<unknown>;
  #onReply: () => void = () => {};

  constructor(worldSize: number) {
    this.#worldSize = worldSize;
    this.#channel.onmessage = (event) => {
      const reply = (event as { data: TrainingReply }).data;
      this.#replies.set(reply.rank, reply);
      this.#onReply();
    };
    this.#ended = runInMemoryRanks({
      worldSize,
      ...rankThreads(new URL('../ranks/train-on-request.ts', import.meta.url)),
      argument: this.#channel.name,
      timeoutMs: 60_000,
    });
    this.#ended.catch(() => {}); // those that wait for replies get the error
  }

  /** Trains one after the other; what each rank returns, by rank. */
  async train(trainings: readonly TrainGptArgument[]): Promise<TrainGptResult[][]> {
    if (this.#replies.size < this.#worldSize) await this.#allReplies();
    this.#replies.clear();
    this.#channel.postMessage({ trainings } satisfies TrainingRequest);
    await this.#allReplies();
    return Array.from({ length: this.#worldSize }, (_, rank) => this.#replies.get(rank)!.results);
  }

  /** Ends the threads. */
  async close(): Promise<void> {
    this.#channel.postMessage({ trainings: undefined } satisfies TrainingRequest);
    await this.#ended.catch(() => {}); // a training run that failed has reported it
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
