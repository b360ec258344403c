import { type MessagePort, workerData } from 'node:worker_threads';
import type { ErrorMessage } from '@mtl/errors';
import type { NumberedBatch } from '@mtl/layout';
import { packWorkerError } from '../files/worker-thread.js';
import { type MicroBatchSamplerOptions, sampleMicroBatches } from '../samples/micro-batch-sampler.js';
import { assembleBatch, type SampleDatasetDescription } from '../samples/sample-dataset.js';
import { openSampleDataset } from './open-sample-dataset.js';

/** The initial data of the thread. Afterwards, each message on `port` requests another batch. */
export interface BatchWorkerData {
  readonly port: MessagePort;
  readonly dataset: SampleDatasetDescription;
  readonly sampler: MicroBatchSamplerOptions;
}

/** The next batch, the end, or an error. */
export type BatchReply<Batch extends NumberedBatch> =
  | { readonly batch: Batch; readonly milliseconds: number }
  | { readonly done: true }
  | { readonly error: ErrorMessage };

const { port, dataset: description, sampler } = workerData as BatchWorkerData;
const dataset = openSampleDataset<NumberedBatch>(description);
const micro = sampleMicroBatches(sampler);

port.on('message', () => {
  try {
    const started = performance.now();
    const next = micro.next();
    if (next.done) {
      port.postMessage({ done: true } satisfies BatchReply<NumberedBatch>);
      return;
    }
    const batch = assembleBatch(dataset, next.value);
    const reply: BatchReply<NumberedBatch> = { batch, milliseconds: performance.now() - started };
    // the arrays of a batch are not shared with other batches, so they can be transferred to the other thread
    // without a copy
    const arrays = Object.values(batch).filter((value) => ArrayBuffer.isView(value));
    port.postMessage(
      reply,
      arrays.map((array) => array.buffer as ArrayBuffer),
    );
  } catch (error) {
    port.postMessage({ error: packWorkerError(error) } satisfies BatchReply<NumberedBatch>);
  }
});
