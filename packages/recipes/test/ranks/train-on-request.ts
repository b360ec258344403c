import { BroadcastChannel } from 'node:worker_threads';
import type { World } from '@mtl/comm';
import train, { type TrainGptArgument, type TrainGptResult } from './train-gpt.js';

/** What ranks are sent: training runs to do one after the other, or that there are no more. */
export interface TrainingRequest {
  readonly trainings: readonly TrainGptArgument[] | undefined;
}

/** What a rank replies: the results of the training runs, or none yet when it has begun to listen. */
export interface TrainingReply {
  readonly rank: number;
  readonly results: TrainGptResult[];
}

/**
 * Trains what it is asked for on a broadcast channel until it is told to end; the first failure ends it, too.
 */
export default async (world: World, channelName: string): Promise<void> => {
  const channel = new BroadcastChannel(channelName);
  const reply = (results: TrainGptResult[]): void =>
    channel.postMessage({ rank: world.rank, results } satisfies TrainingReply);
  try {
    await new Promise<void>((resolve, reject) => {
      channel.onmessage = (event) => {
        const { data } = event as { data: TrainingRequest | TrainingReply };
        if ('rank' in data) return; // another rank's reply
        if (data.trainings === undefined) resolve();
        else train(world, data.trainings).then(reply, reject);
      };
      reply([]);
    });
  } finally {
    channel.close();
  }
};
