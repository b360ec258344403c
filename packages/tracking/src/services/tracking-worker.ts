import { parentPort, workerData } from 'node:worker_threads';
import type { RunOutcome } from '@mtl/trainer';
import type { DeliveryResult } from './delivery.js';
import { type OpenDeliveriesOptions, openDeliveries } from './open-deliveries.js';

/** Data for the thread that sends metrics. */
export type TrackingWorkerData = OpenDeliveriesOptions;

/**
 * The message that tells the sending thread that the run has ended. `graceMs` is how long sending the
 * remaining rows may take, in milliseconds.
 */
export interface TrackingRequest {
  readonly outcome: RunOutcome;
  readonly graceMs: number;
}

/** Messages from the sending thread: messages for the user, and at the end the results. */
export type TrackingReply = { readonly message: string } | { readonly results: readonly DeliveryResult[] };

const port = parentPort!;
const reply = (content: TrackingReply): void => port.postMessage(content);
const { deliveries, giveUp } = openDeliveries({
  ...(workerData as TrackingWorkerData),
  onMessage: (message) => reply({ message }),
});
port.on('message', ({ outcome, graceMs }: TrackingRequest) => {
  for (const delivery of deliveries) delivery.finish(outcome);
  setTimeout(giveUp, graceMs).unref();
});
const results = await Promise.all(deliveries.map((delivery) => delivery.run()));
reply({ results });
port.close();
