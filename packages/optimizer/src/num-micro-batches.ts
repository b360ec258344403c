import { ConfigurationError, nearestDivisors, nearestMultiples } from '@mtl/errors';

/** Growth of the global batch during the first samples (--rampup-batch-size START INCREMENT SAMPLES). */
export interface BatchSizeRampup {
  /** Global batch size of the first step, in samples. */
  readonly start: number;
  /** Samples by which the global batch grows at a time. */
  readonly increment: number;
  /** Samples over which it grows to the full size. */
  readonly samples: number;
}

export interface NumMicroBatchesOptions {
  /** Samples per optimizer step over all data-parallel ranks, once ramp-up is over. */
  readonly globalBatchSize: number;
  /** Samples per forward pass on one data-parallel rank. */
  readonly microBatchSize: number;
  readonly dataParallelSize: number;
  readonly rampup?: BatchSizeRampup;
}

/** What one step consists of. */
export interface StepBatch {
  /** Samples of the step over all data-parallel ranks. */
  readonly globalBatchSize: number;
  /** Micro-batches that each data-parallel rank accumulates. */
  readonly numMicroBatches: number;
}

/**
 * How a global batch is divided into micro-batches, with the rules of Megatron-LM's number-of-micro-batches
 * calculator: m = global batch / (micro-batch x data-parallel size), and an optional ramp-up that grows the
 * global batch by `increment` at equal intervals of consumed samples. Every size the ramp-up will pass is
 * checked here, before the first step, instead of when it is reached.
 */
export class NumMicroBatches {
  readonly #options: NumMicroBatchesOptions;
  readonly #samplesPerMicroStep: number;

  /** @throws ConfigurationError `MTL_BATCH_SIZE` or `MTL_RAMPUP_BATCH_SIZE` with the nearest valid values. */
  constructor(options: NumMicroBatchesOptions) {
    const { globalBatchSize, microBatchSize, dataParallelSize, rampup } = options;
    checkCount('--global-batch-size', globalBatchSize);
    checkCount('--micro-batch-size', microBatchSize);
    checkCount('the data-parallel size', dataParallelSize);
    this.#options = options;
    this.#samplesPerMicroStep = microBatchSize * dataParallelSize;
    this.#checkDivides('--global-batch-size', globalBatchSize);
    if (rampup !== undefined) this.#checkRampup(rampup);
  }

  /**
   * The batch of the step that begins after `consumedSamples` samples.
   *
   * @param consumedSamples samples consumed so far in the whole training run, resumed runs included.
   */
  at(consumedSamples: number): StepBatch {
    const globalBatchSize = this.#globalBatchSizeAt(consumedSamples);
    return { globalBatchSize, numMicroBatches: globalBatchSize / this.#samplesPerMicroStep };
  }

  /** Every number of micro-batches that a step of the whole training run can have, ascending. */
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
   * Steps that a training run over `trainSamples` samples takes (Megatron's rule): the whole ramp-up step by
   * step, then full steps only, so that a last incomplete batch is dropped.
   */
  iterationsFor(trainSamples: number): number {
    const { globalBatchSize, rampup } = this.#options;
    if (rampup === undefined) return Math.floor(trainSamples / globalBatchSize);
    let consumedSamples = 0;
    let iterations = 0;
    while (consumedSamples <= rampup.samples) {
      consumedSamples += this.#globalBatchSizeAt(consumedSamples);
      iterations += 1;
    }
    return iterations + Math.max(0, Math.floor((trainSamples - consumedSamples) / globalBatchSize));
  }

  /** Samples that the first `iterations` steps of a training run consume. */
  samplesAfter(iterations: number): number {
    const { globalBatchSize, rampup } = this.#options;
    let [samples, iteration] = [0, 0];
    while (rampup !== undefined && samples <= rampup.samples && iteration < iterations) {
      samples += this.#globalBatchSizeAt(samples);
      iteration += 1;
    }
    return samples + (iterations - iteration) * globalBatchSize;
  }

  #globalBatchSizeAt(consumedSamples: number): number {
    const { globalBatchSize, rampup } = this.#options;
    if (rampup === undefined || consumedSamples > rampup.samples) return globalBatchSize;
    const numIncrements = (globalBatchSize - rampup.start) / rampup.increment;
    // Divided in this order, in doubles, as Megatron does: the interval need not be whole, and at its edges
    // the rounding decides which step is the first of the next size.
    const samplesPerIncrement = rampup.samples / numIncrements;
    return rampup.start + Math.trunc(consumedSamples / samplesPerIncrement) * rampup.increment;
  }

  #checkDivides(name: string, value: number): void {
    const divisor = this.#samplesPerMicroStep;
    if (value % divisor === 0) return;
    const { microBatchSize, dataParallelSize } = this.#options;
    const nearest = nearestMultiples(divisor, value);
    const otherWay =
      value % dataParallelSize === 0
        ? `, or a --micro-batch-size that divides ${value / dataParallelSize}`
        : '';
    throw new ConfigurationError(
      'MTL_BATCH_SIZE',
      `${name} ${value} is not a multiple of ${divisor} (--micro-batch-size ${microBatchSize} x data-parallel size ${dataParallelSize})`,
      {
        expected: nearest.join(' or '),
        remedy: `use ${nearest.at(-1)}${otherWay}`,
        details: { value, divisor, nearest },
      },
    );
  }

  #checkRampup({ start, increment, samples }: BatchSizeRampup): void {
    const { globalBatchSize } = this.#options;
    checkCount('the start of --rampup-batch-size', start);
    checkCount('the increment of --rampup-batch-size', increment);
    checkCount('the samples of --rampup-batch-size', samples);
    if (start > globalBatchSize) {
      throw new ConfigurationError(
        'MTL_RAMPUP_BATCH_SIZE',
        `--rampup-batch-size starts at ${start}, above --global-batch-size ${globalBatchSize}`,
        { expected: `a start of at most ${globalBatchSize}` },
      );
    }
    const growth = globalBatchSize - start;
    if (growth % increment !== 0) {
      const nearest = nearestDivisors(growth, increment);
      throw new ConfigurationError(
        'MTL_RAMPUP_BATCH_SIZE',
        `--rampup-batch-size grows from ${start} to ${globalBatchSize} by ${increment}, which does not divide ${growth}`,
        { expected: `an increment of ${nearest.join(' or ')}`, details: { growth, nearest } },
      );
    }
    this.#checkDivides('the start of --rampup-batch-size', start);
    if (growth > 0) this.#checkDivides('the increment of --rampup-batch-size', increment);
  }
}

function checkCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new ConfigurationError('MTL_BATCH_SIZE', `${name} is ${value}`, {
    expected: 'a whole number of 1 or more',
  });
}
