import { BroadcastChannel } from 'node:worker_threads';
import type { World } from '@mtl/comm';
import { MtlError } from '@mtl/errors';

export interface RunOnRequestArgument {
  /** The name of the broadcast channel. */
  readonly channel: string;
  /**
   * Path of a module. Its default export, (world, argument) => result, runs for every request; argument and
   * result must be cloneable.
   */
  readonly module: string;
}

/** A request to ranks: the argument of a run, or the end of requests. */
export type RankRequest = { readonly argument: unknown } | 'end';

/** The reply of a rank: the result of the last request; empty when it has started to listen. */
export interface RankReply {
  readonly rank: number;
  readonly result?: unknown;
  /** The error of a request in a world of one rank, which continues to listen. */
  readonly failure?: RankFailure;
}

/** An error as plain data: a cloned error would lose its code and its details. */
export interface RankFailure {
  readonly error: unknown;
  readonly known: Pick<MtlError, 'code' | 'details'> | undefined;
}

/**
 * Runs a module for every request on a broadcast channel until it is told to end. The first failure of a rank
 * that other ranks wait for also ends it.
 */
export default async (world: World, { channel: name, module }: RunOnRequestArgument): Promise<void> => {
  const { default: run } = (await import(module)) as {
    default: (world: World, argument: unknown) => Promise<unknown>;
  };
  const channel = new BroadcastChannel(name);
  const send = (reply: Omit<RankReply, 'rank'>): void => channel.postMessage({ rank: world.rank, ...reply });
  const reply = (result?: unknown): void => send({ result });
  const fail = (error: unknown): void => {
    const known = MtlError.isInstance(error) ? { code: error.code, details: error.details } : undefined;
    send({ failure: { error, known } });
  };
  try {
    await new Promise<void>((resolve, reject) => {
      channel.onmessage = (event) => {
        const { data } = event as { data: RankRequest | RankReply };
        if (data === 'end') resolve();
        else if ('argument' in data) run(world, data.argument).then(reply, world.size === 1 ? fail : reject);
        // otherwise the message is another rank's reply
      };
      reply();
    });
  } finally {
    channel.close();
  }
};
