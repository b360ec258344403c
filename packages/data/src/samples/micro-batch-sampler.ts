import { UsageError } from '@mtl/errors';
import { RandomState } from '../random/random-state.js';

/**
 * Which samples a rank reads, and in which order. The object is plain data, which worker threads can receive.
 */
export interface MicroBatchSamplerOptions {
  /**
   * The order of the samples. `single`: 0, 1, 2, ..., once. `cyclic`: endless epochs, each with a new seeded
   * permutation of all samples.
   */
  readonly kind: 'single' | 'cyclic';
  /** Samples of the dataset. */
  readonly totalSamples: number;
  /** How many samples all ranks together have already consumed. The sampler continues after these samples. */
  readonly consumedSamples?: number;
  readonly microBatchSize: number;
  /** This rank's part of every batch: part `index` of `count` equal parts. Default: the complete batch. */
  readonly shareOfBatch?: { readonly index: number; readonly count: number };
  /** @deprecated the `index` of `shareOfBatch` */
  readonly dataParallelRank?: number;
  /** @deprecated the `count` of `shareOfBatch` */
  readonly dataParallelSize?: number;
  /** The seed of the permutations (`cyclic` only). */
  readonly seed?: number;
  /**
   * Only for `cyclic`: an epoch's sample count is rounded down to a multiple of this value. Pass the global
   * batch size if no step may span two epochs, and if the omitted samples must not depend on the parallel
   * layout. Default: `microBatchSize` times the number of shares.
   */
  readonly epochMultiple?: number;
}

/** Returns the share of every batch that the options request. The options may use the deprecated names. */
export function shareOfSampler({
  shareOfBatch,
  dataParallelRank,
  dataParallelSize,
}: Pick<MicroBatchSamplerOptions, 'shareOfBatch' | 'dataParallelRank' | 'dataParallelSize'>): {
  readonly index: number;
  readonly count: number;
} {
  const isOld = dataParallelRank !== undefined || dataParallelSize !== undefined;
  if (shareOfBatch === undefined) return { index: dataParallelRank ?? 0, count: dataParallelSize ?? 1 };
  if (!isOld) return shareOfBatch;
  throw new UsageError(
    'MTL_DATA_SAMPLER',
    'shareOfBatch is given, and dataParallelRank or dataParallelSize, its names of before',
    { expected: 'only one', remedy: 'leave out dataParallelRank and dataParallelSize', exitCode: 2 },
  );
}

/**
 * Yields the sample indices of each micro-batch. As in Megatron's pretraining sampler, each chunk of
 * (`microBatchSize` * number of shares) samples is divided into contiguous slices, one per share. A step's
 * samples thus do not depend on the number of ranks. An incomplete last chunk is omitted.
 */
export function* sampleMicroBatches(options: MicroBatchSamplerOptions): Generator<number[], void, undefined> {
  const { kind, totalSamples, consumedSamples = 0, microBatchSize } = options;
  const { index, count } = shareOfSampler(options);
  check(options, { index, count });
  const chunk = microBatchSize * count;
  const from = index * microBatchSize;
  const perEpoch = totalSamples - (totalSamples % (options.epochMultiple ?? chunk));
  if (kind === 'single') {
    for (let start = consumedSamples; start + chunk <= totalSamples; start += chunk) {
      yield Array.from({ length: microBatchSize }, (_, i) => start + from + i);
    }
    return;
  }
  for (
    let epoch = Math.floor(consumedSamples / perEpoch), start = consumedSamples % perEpoch;
    ;
    epoch++, start = 0
  ) {
    const order = new Float64Array(totalSamples).map((_, i) => i);
    new RandomState(((options.seed ?? 0) + epoch) % 4294967296).shuffle(order);
    // if the dataset's size is not a multiple of the chunk size, each epoch omits different samples
    for (; start + chunk <= perEpoch; start += chunk) {
      yield Array.from(order.subarray(start + from, start + from + microBatchSize));
    }
  }
}

function check(
  options: MicroBatchSamplerOptions,
  { index, count }: { readonly index: number; readonly count: number },
): void {
  const { totalSamples, consumedSamples = 0, microBatchSize } = options;
  const fail = (message: string, expected: string): never => {
    throw new UsageError('MTL_DATA_SAMPLER', message, { expected, exitCode: 2 });
  };
  if (options.kind !== 'single' && options.kind !== 'cyclic') {
    fail(`unknown kind of sampler: ${String(options.kind)}`, 'single or cyclic');
  }
  if (!Number.isInteger(microBatchSize) || microBatchSize < 1) {
    fail(`the micro-batch size ${microBatchSize} is not usable`, 'a positive integer');
  }
  if (!Number.isInteger(count) || count < 1) {
    fail(`a batch of ${count} shares is not usable`, 'a positive integer');
  }
  if (!Number.isInteger(index) || index < 0 || index >= count) {
    fail(`share ${index} of a batch does not exist`, `0 to ${count - 1}`);
  }
  const chunk = microBatchSize * count;
  if (!Number.isInteger(totalSamples) || totalSamples < chunk) {
    fail(`${totalSamples} samples do not fill one micro-batch on each rank`, `at least ${chunk} samples`);
  }
  const { epochMultiple = chunk } = options;
  if (!Number.isInteger(epochMultiple) || epochMultiple < 1 || epochMultiple % chunk !== 0) {
    fail(`epochs of a multiple of ${epochMultiple} samples are not possible`, `a multiple of ${chunk}`);
  }
  if (totalSamples < epochMultiple) {
    fail(`${totalSamples} samples do not fill one epoch`, `at least ${epochMultiple} samples`);
  }
  if (!Number.isInteger(consumedSamples) || consumedSamples < 0) {
    fail(`${consumedSamples} consumed samples are not usable`, 'a non-negative integer');
  }
  if (options.kind === 'single' && consumedSamples >= totalSamples) {
    fail(
      `${consumedSamples} of ${totalSamples} samples are consumed, so none is left`,
      `fewer than ${totalSamples}`,
    );
  }
  if (
    options.kind === 'cyclic' &&
    (consumedSamples % (totalSamples - (totalSamples % epochMultiple))) % chunk !== 0
  ) {
    fail(
      `${consumedSamples} consumed samples do not end at a micro-batch`,
      `a multiple of ${chunk} in its epoch`,
    );
  }
}
