import { UsageError } from '@mtl/errors';
import { RandomState } from '../random/random-state.js';

/** The samples that this data-parallel rank reads, and their order. Plain data: worker threads receive it. */
export interface MicroBatchSamplerOptions {
  /**
   * `single`: 0, 1, 2, ... once. `cyclic`: a new seeded permutation of all samples for every epoch, without
   * end.
   */
  readonly kind: 'single' | 'cyclic';
  /** Samples of the dataset. */
  readonly totalSamples: number;
  /** Samples that all ranks together have consumed before: where to go on. */
  readonly consumedSamples?: number;
  readonly microBatchSize: number;
  readonly dataParallelRank?: number;
  readonly dataParallelSize?: number;
  /** Seed of the permutations (`cyclic` only). */
  readonly seed?: number;
  /**
   * The number that an epoch's samples are a multiple of (`cyclic` only): the global batch where steps must
   * not span two epochs, and the samples left out must not depend on the layout. Default microBatchSize x
   * dataParallelSize.
   */
  readonly epochMultiple?: number;
}

/**
 * Yields the sample numbers of one micro-batch after another. Every chunk of microBatchSize x
 * dataParallelSize samples is split into contiguous slices, one a rank (Megatron's pretraining sampler), so
 * the samples of a step do not depend on how many ranks share them. A last incomplete chunk is left out.
 */
export function* sampleMicroBatches(options: MicroBatchSamplerOptions): Generator<number[], void, undefined> {
  const { kind, totalSamples, consumedSamples = 0, microBatchSize, dataParallelRank = 0 } = options;
  const dataParallelSize = options.dataParallelSize ?? 1;
  check(options);
  const chunk = microBatchSize * dataParallelSize;
  const from = dataParallelRank * microBatchSize;
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
    // A dataset whose size is no multiple of the chunk gives other samples the chance to be left out each
    // epoch.
    for (; start + chunk <= perEpoch; start += chunk) {
      yield Array.from(order.subarray(start + from, start + from + microBatchSize));
    }
  }
}

function check(options: MicroBatchSamplerOptions): void {
  const {
    totalSamples,
    consumedSamples = 0,
    microBatchSize,
    dataParallelRank = 0,
    dataParallelSize = 1,
  } = options;
  const fail = (message: string, expected: string): never => {
    throw new UsageError('MTL_DATA_SAMPLER', message, { expected, exitCode: 2 });
  };
  if (options.kind !== 'single' && options.kind !== 'cyclic') {
    fail(`unknown kind of sampler: ${String(options.kind)}`, 'single or cyclic');
  }
  if (!Number.isInteger(microBatchSize) || microBatchSize < 1) {
    fail(`the micro-batch size ${microBatchSize} is not usable`, 'a positive integer');
  }
  if (!Number.isInteger(dataParallelSize) || dataParallelSize < 1) {
    fail(`the data-parallel size ${dataParallelSize} is not usable`, 'a positive integer');
  }
  if (!Number.isInteger(dataParallelRank) || dataParallelRank < 0 || dataParallelRank >= dataParallelSize) {
    fail(`data-parallel rank ${dataParallelRank} does not exist`, `0 to ${dataParallelSize - 1}`);
  }
  const chunk = microBatchSize * dataParallelSize;
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
