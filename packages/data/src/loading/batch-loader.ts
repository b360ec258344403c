import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { DataError, UsageError, unpackError } from '@mtl/errors';
import type { NumberedBatch, TokenBatch } from '@mtl/layout';
import { packWorkerError, startWorker } from '../files/worker-thread.js';
import { type MicroBatchSamplerOptions, sampleMicroBatches } from '../samples/micro-batch-sampler.js';
import { assembleBatch, type SampleDataset } from '../samples/sample-dataset.js';
import type { BatchReply, BatchWorkerData } from './batch-worker.js';

/** The dataset, the order of samples, and the number of batches to read ahead. */
export interface BatchLoaderOptions<Batch extends NumberedBatch = TokenBatch> {
  readonly dataset: SampleDataset<Batch>;
  /**
   * The samples that this rank reads. `consumedSamples` says where an earlier run ended. `totalSamples` is
   * the complete dataset by default.
   */
  readonly sampler: Omit<MicroBatchSamplerOptions, 'totalSamples'> & { readonly totalSamples?: number };
  /** How many batches are assembled before the caller requests them. Default: 4. */
  readonly readAhead?: number;
  /**
   * The thread that assembles batches. `worker` (default): a worker thread, which assembles batches while the
   * training step runs. `main`: this thread, which assembles a batch when it is requested.
   */
  readonly thread?: 'worker' | 'main';
}

/** Counts and times since the loader was created. */
interface BatchLoaderStatistics {
  readonly batches: number;
  /**
   * How long `next` has waited for batches in total. The first batch does not count, because its wait
   * includes starting the thread.
   */
  readonly waitedMilliseconds: number;
  /** The total time spent on assembling batches, in the worker thread or in this thread. */
  readonly assembledMilliseconds: number;
}

/** A finite or infinite stream of micro-batches. `close`, or leaving a `for await` loop, ends its thread. */
export interface BatchLoader<Batch extends NumberedBatch = TokenBatch> extends AsyncIterableIterator<Batch> {
  next(): Promise<IteratorResult<Batch, undefined>>;
  readonly statistics: BatchLoaderStatistics;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Creates a loader, which begins to read batches ahead. The same options always give the same batches, in
 * either thread and also after resuming a run.
 */
export function createBatchLoader<Batch extends NumberedBatch = TokenBatch>(
  options: BatchLoaderOptions<Batch>,
): BatchLoader<Batch> {
  const { dataset, readAhead = 4, thread = 'worker' } = options;
  const sampler = { totalSamples: dataset.length, ...options.sampler };
  if (!Number.isInteger(readAhead) || readAhead < 1) {
    throw new UsageError('MTL_DATA_READ_AHEAD', `${readAhead} batches ahead are not possible`, {
      expected: '1 or more',
    });
  }
  if (sampler.totalSamples > dataset.length) {
    throw new UsageError('MTL_DATA_SAMPLER', `the sampler counts ${sampler.totalSamples} samples`, {
      expected: `at most ${dataset.length}, the number of samples in the dataset`,
    });
  }
  // the generator checks its settings when it starts, so wrong settings are reported here instead of in the
  // worker thread
  sampleMicroBatches(sampler).next();
  return thread === 'main'
    ? new MainThreadLoader(dataset, sampler)
    : new WorkerLoader({ dataset, sampler, readAhead });
}

const finished = { done: true, value: undefined } as const;

class MainThreadLoader<Batch extends NumberedBatch> implements BatchLoader<Batch> {
  readonly #dataset: SampleDataset<Batch>;
  readonly #samples: Generator<number[], void, undefined>;
  #batches = 0;
  #milliseconds = 0;

  constructor(dataset: SampleDataset<Batch>, sampler: MicroBatchSamplerOptions) {
    this.#dataset = dataset;
    this.#samples = sampleMicroBatches(sampler);
  }

  get statistics(): BatchLoaderStatistics {
    const milliseconds = this.#milliseconds;
    return { batches: this.#batches, waitedMilliseconds: milliseconds, assembledMilliseconds: milliseconds };
  }

  async next(): Promise<IteratorResult<Batch, undefined>> {
    const started = performance.now();
    const samples = this.#samples.next();
    if (samples.done) return finished;
    const value = assembleBatch(this.#dataset, samples.value);
    this.#milliseconds += performance.now() - started;
    this.#batches++;
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<Batch, undefined>> {
    await this.close();
    return finished;
  }

  async close(): Promise<void> {
    this.#samples.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

class WorkerLoader<Batch extends NumberedBatch> implements BatchLoader<Batch> {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #replies: BatchReply<Batch>[] = [];
  #wake: (() => void) | undefined;
  #end: BatchReply<Batch> | undefined;
  #batches = 0;
  #waited = 0;
  #assembled = 0;

  constructor(options: {
    dataset: SampleDataset<Batch>;
    sampler: MicroBatchSamplerOptions;
    readAhead: number;
  }) {
    const { dataset, sampler, readAhead } = options;
    const { port1, port2 } = new MessageChannel();
    const workerData: BatchWorkerData = { port: port2, dataset: dataset.description, sampler };
    this.#port = port1;
    this.#worker = startWorker({ name: 'loading/batch-worker', workerData, transferList: [port2] });
    this.#worker.on('error', (error) => this.#receive({ error: packWorkerError(error) }));
    this.#worker.on('exit', () => {
      const error = packWorkerError(new DataError('MTL_DATA_WORKER', 'the thread that reads batches ended'));
      this.#receive({ error });
    });
    port1.on('message', (reply: BatchReply<Batch>) => this.#receive(reply));
    // A loader without a pending request must not keep the program alive.
    port1.unref();
    this.#worker.unref();
    for (let i = 0; i < readAhead; i++) port1.postMessage(null);
  }

  get statistics(): BatchLoaderStatistics {
    return {
      batches: this.#batches,
      waitedMilliseconds: this.#waited,
      assembledMilliseconds: this.#assembled,
    };
  }

  async next(): Promise<IteratorResult<Batch, undefined>> {
    const reply = this.#end ?? this.#ready() ?? (await this.#wait());
    if ('batch' in reply) {
      this.#port.postMessage(null);
      this.#batches++;
      this.#assembled += reply.milliseconds;
      return { done: false, value: reply.batch };
    }
    // later calls get the same reply, which is an error or marks the end of the stream
    this.#end = reply;
    await this.close();
    if ('error' in reply) throw unpackError(reply.error);
    return finished;
  }

  async return(): Promise<IteratorResult<Batch, undefined>> {
    this.#end = { done: true };
    await this.close();
    return finished;
  }

  async close(): Promise<void> {
    this.#end ??= { done: true };
    this.#port.close();
    await this.#worker.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /**
   * Returns a reply that has already arrived, from the queue or the port; undefined if there is none. A reply
   * stays in the port while a training step blocks the event loop.
   */
  #ready(): BatchReply<Batch> | undefined {
    const queued = this.#replies.shift();
    if (queued !== undefined) return queued;
    return receiveMessageOnPort(this.#port)?.message as BatchReply<Batch> | undefined;
  }

  async #wait(): Promise<BatchReply<Batch>> {
    const started = performance.now();
    this.#port.ref();
    this.#worker.ref();
    try {
      while (this.#replies.length === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      this.#port.unref();
      this.#worker.unref();
    }
    if (this.#batches > 0) this.#waited += performance.now() - started;
    return this.#replies.shift()!;
  }

  #receive(reply: BatchReply<Batch>): void {
    this.#replies.push(reply);
    this.#wake?.();
  }
}
