import { type MessagePort, workerData } from 'node:worker_threads';
import type { ErrorMessage } from '@mtl/errors';
import type { NumberedBatch } from '@mtl/layout';
import { packWorkerError } from '../files/worker-thread.js';
import { type MicroBatchSamplerOptions, sampleMicroBatches } from '../samples/micro-batch-sampler.js';
import { assembleBatch, type SampleDatasetDescription } from '../samples/sample-dataset.js';
import { openSampleDataset } from './open-sample-dataset.js';

/** The thread's initial data. Afterwards, each message on `port` requests one more batch. */
export interface BatchWorkerData {
  readonly port: MessagePort;
  readonly dataset: SampleDatasetDescription;
  readonly sampler: MicroBatchSamplerOptions;
}

/** The next batch, the end of the stream, or an error. */
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
    // a batch shares no arrays with the next batch, so its arrays can be transferred to the main thread
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
