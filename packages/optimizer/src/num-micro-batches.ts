import { ConfigurationError, nearestDivisors, nearestMultiples } from '@mtl/errors';

/** How the global batch grows during the first samples (--rampup-batch-size START INCREMENT SAMPLES). */
export interface BatchSizeRampup {
  /** The global batch size of the first step, in samples. */
  readonly start: number;
  /** The number of samples by which the global batch grows each time. */
  readonly increment: number;
  /** The number of samples after which the batch has its full size. */
  readonly samples: number;
}

interface BatchOptions {
  /** The number of samples per optimizer step over all ranks, after ramp-up. */
  readonly globalBatchSize: number;
  /** The number of samples in a forward pass on one rank. */
  readonly microBatchSize: number;
  readonly rampup?: BatchSizeRampup;
  /**
   * The number of samples that earlier runs consumed, if this run resumes from a checkpoint. The sizes of a
   * ramp-up that has ended within these samples are not checked. Default: 0.
   */
  readonly consumedSamples?: number | undefined;
}

export type NumMicroBatchesOptions = BatchOptions &
  (
    | {
        /**
         * The number of equal shares of a batch. Different ranks compute different shares (see
         * `ShareOfBatch`).
         */
        readonly numShares: number;
        readonly dataParallelSize?: undefined;
      }
    | {
        readonly numShares?: undefined;
        /** @deprecated `numShares` */
        readonly dataParallelSize: number;
      }
  );

/** A position in a training run: how many steps it has taken and how many samples it has consumed. */
export interface BatchPosition {
  /** Steps taken. */
  readonly iteration: number;
  readonly consumedSamples: number;
}

/** The batches of a step. */
interface StepBatch {
  /** Samples of the step over all ranks. */
  readonly globalBatchSize: number;
  /** How many micro-batches each share of the batch has. The share's ranks accumulate their gradients. */
  readonly numMicroBatches: number;
}

/**
 * Divides a global batch into micro-batches, with the rules of Megatron-LM's number-of-micro-batches
 * calculator. The number is the global batch size divided by (micro-batch size * shares of a batch). An
 * optional ramp-up grows the global batch by `increment` at equal intervals of consumed samples. The
 * constructor checks every size in advance, before the first step.
 */
export class NumMicroBatches {
  readonly #options: BatchOptions & { readonly numShares: number };
  readonly #samplesPerMicroStep: number;

  /**
   * @throws ConfigurationError `MTL_BATCH_SIZE` or `MTL_RAMPUP_BATCH_SIZE`, whose message names the nearest
   * valid values
   */
  constructor(options: NumMicroBatchesOptions) {
    const { globalBatchSize, microBatchSize, rampup, consumedSamples = 0 } = options;
    const numShares = options.numShares ?? options.dataParallelSize;
    checkCount('globalBatchSize', globalBatchSize);
    checkCount('microBatchSize', microBatchSize);
    checkCount('the data-parallel size', numShares);
    if (rampup !== undefined) checkRampup(rampup, { globalBatchSize });
    this.#samplesPerMicroStep = microBatchSize * numShares;
    // batches never shrink, so once a batch has the full size, all later batches have it too
    const isOver = sizeAt(consumedSamples, { globalBatchSize, rampup }) === globalBatchSize;
    this.#options = {
      globalBatchSize,
      microBatchSize,
      numShares,
      ...(isOver || rampup === undefined ? {} : { rampup }),
    };
    this.#checkDivides('globalBatchSize', globalBatchSize);
    if (this.#options.rampup !== undefined) this.#checkRampupSizes(this.#options.rampup);
  }

  /**
   * Returns the batch of the step that begins after `consumedSamples` samples.
   *
   * @param consumedSamples the number of all samples so far, including samples before the run was resumed
   */
  at(consumedSamples: number): StepBatch {
    const globalBatchSize = sizeAt(consumedSamples, this.#options);
    return { globalBatchSize, numMicroBatches: globalBatchSize / this.#samplesPerMicroStep };
  }

  /** Returns every number of micro-batches that a step can have, in ascending order. */
  countsOfMicroBatches(): readonly number[] {
    const { globalBatchSize, rampup } = this.#options;
    const { start, increment } = rampup ?? { start: globalBatchSize, increment: 1 };
    const counts: number[] = [];
    for (let size = start; size <= globalBatchSize; size += increment) {
      counts.push(size / this.#samplesPerMicroStep);
    }
    return counts;
  }

  /**
   * Returns the index of the last step of a training run over `trainSamples` samples. An incomplete last
   * batch is dropped (Megatron-LM's rule; only its ramp-up may exceed the samples).
   *
   * @param from the position at which the run continues. Default: the start. Samples before this position
   *   count, regardless of the batch sizes
   */
  iterationsFor(trainSamples: number, from: BatchPosition = start): number {
    const { iteration, consumedSamples } = this.#rampUp(from, (_, next) => next <= trainSamples);
    if (!this.#isFull(consumedSamples)) return iteration;
    return (
      iteration + Math.max(0, Math.floor((trainSamples - consumedSamples) / this.#options.globalBatchSize))
    );
  }

  /**
   * Returns how many samples have been consumed after `iterations` steps of the complete training run.
   *
   * @param from the position at which the run continues. Default: the start
   */
  samplesAfter(iterations: number, from: BatchPosition = start): number {
    const { iteration, consumedSamples } = this.#rampUp(from, (step) => step <= iterations);
    return consumedSamples + (iterations - iteration) * this.#options.globalBatchSize;
  }

  /**
   * Takes the remaining steps of the ramp-up while `isTaken` returns true, and returns the position after
   * them.
   */
  #rampUp(
    from: BatchPosition,
    isTaken: (iteration: number, consumedSamples: number) => boolean,
  ): BatchPosition {
    let { iteration, consumedSamples } = from;
    while (!this.#isFull(consumedSamples)) {
      const next = consumedSamples + sizeAt(consumedSamples, this.#options);
      if (!isTaken(iteration + 1, next)) break;
      consumedSamples = next;
      iteration += 1;
    }
    return { iteration, consumedSamples };
  }

  #isFull(consumedSamples: number): boolean {
    return sizeAt(consumedSamples, this.#options) === this.#options.globalBatchSize;
  }

  #checkDivides(name: string, value: number): void {
    const divisor = this.#samplesPerMicroStep;
    if (value % divisor === 0) return;
    const { microBatchSize, numShares } = this.#options;
    const nearest = nearestMultiples(divisor, value);
    const otherWay = value % numShares === 0 ? `, or a microBatchSize that divides ${value / numShares}` : '';
    throw new ConfigurationError(
      'MTL_BATCH_SIZE',
      `${name} ${value} is not a multiple of ${divisor} (microBatchSize ${microBatchSize} x data-parallel size ${numShares})`,
      {
        expected: nearest.join(' or '),
        remedy: `use ${nearest.at(-1)}${otherWay}`,
        details: { value, divisor, nearest },
      },
    );
  }

  #checkRampupSizes({ start, increment }: BatchSizeRampup): void {
    this.#checkDivides('rampup.start', start);
    if (this.#options.globalBatchSize > start) this.#checkDivides('rampup.increment', increment);
  }
}

const start: BatchPosition = { iteration: 0, consumedSamples: 0 };

type BatchSizes = Pick<BatchOptions, 'globalBatchSize'> & {
  readonly rampup?: BatchSizeRampup | undefined;
};

/** Returns the global batch size of the step that begins after `consumedSamples` samples. */
function sizeAt(consumedSamples: number, { globalBatchSize, rampup }: BatchSizes): number {
  if (rampup === undefined || consumedSamples > rampup.samples) return globalBatchSize;
  const numIncrements = (globalBatchSize - rampup.start) / rampup.increment;
  // This is Megatron's order of divisions, in doubles. The interval need not be an integer, and rounding at
  // its limits determines which step is the first with the next size.
  const samplesPerIncrement = rampup.samples / numIncrements;
  return rampup.start + Math.trunc(consumedSamples / samplesPerIncrement) * rampup.increment;
}

function checkRampup(
  { start, increment, samples }: BatchSizeRampup,
  { globalBatchSize }: Pick<BatchOptions, 'globalBatchSize'>,
): void {
  checkCount('rampup.start', start);
  checkCount('rampup.increment', increment);
  checkCount('rampup.samples', samples);
  if (start > globalBatchSize) {
    throw new ConfigurationError(
      'MTL_RAMPUP_BATCH_SIZE',
      `rampup.start ${start} is above globalBatchSize ${globalBatchSize}`,
      { expected: `a start of at most ${globalBatchSize}` },
    );
  }
  const growth = globalBatchSize - start;
  if (growth % increment === 0) return;
  const nearest = nearestDivisors(growth, increment);
  throw new ConfigurationError(
    'MTL_RAMPUP_BATCH_SIZE',
    `rampup grows from ${start} to ${globalBatchSize} by ${increment}, which does not divide ${growth}`,
    { expected: `an increment of ${nearest.join(' or ')}`, details: { growth, nearest } },
  );
}

function checkCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new ConfigurationError('MTL_BATCH_SIZE', `${name} is ${value}`, {
    expected: 'a whole number of 1 or more',
  });
}
