import type { ProcessGroup, Work } from '@mtl/comm';
import { Tensor } from '@mtl/kernels';
import type { StepMetrics, TrainingEvent } from '../metrics/training-reports.js';
import type { RankClock } from './rank-clocks.js';
import { SlowRankFinder, type SlowRankFinderOptions } from './slow-rank-finder.js';
import type { TrainerExtension } from './trainer-extension.js';

export interface RankWatchOptions extends SlowRankFinderOptions {
  /** The group of all ranks. */
  readonly world: ProcessGroup;
  /** The clock that measures how long this rank computes. */
  readonly clock: RankClock;
  /** Returns the peak bytes of tensors on this rank. */
  readonly peakBytes: () => number;
  /**
   * The report interval, in steps. A report follows every step whose number is a multiple of the interval.
   */
  readonly interval: number;
  /**
   * The minimum time between two reports, in milliseconds. If intervals are shorter, several are combined.
   * Default: 5 s.
   */
  readonly leastReportMs?: number | undefined;
}

/** The number of values that each rank reports about an interval. */
const numNumbers = 3;
/**
 * The minimum time between reports, in milliseconds. A report takes less than a thousandth of this time on
 * each rank (see tooling/measure/trainer/rank-watch.ts).
 */
const leastReportMs = 5000;

/**
 * At every interval, gathers the computation time of every rank, without its waits for communication. If
 * steps are short, a report covers several intervals. All ranks compute the same number of intervals, because
 * they compute it from values that were gathered earlier. The gathering overlaps with the next step. All
 * ranks must call the same methods in the same order.
 */
export class RankWatch implements TrainerExtension {
  readonly name = 'rankWatch';
  readonly #options: RankWatchOptions;
  readonly #finder: SlowRankFinder;
  #numSteps = 0;
  /** The number of steps from one report to the next. */
  #stepsOfReport: number;
  #isFirstReport = true;
  #gathering:
    | {
        readonly iteration: number;
        readonly numSteps: number;
        readonly output: Tensor;
        readonly input: Tensor;
        readonly work: Work;
      }
    | undefined;

  constructor(options: RankWatchOptions) {
    this.#options = options;
    this.#finder = new SlowRankFinder(options);
    this.#stepsOfReport = options.interval;
  }

  /** Starts to measure. */
  resume(): void {
    this.#options.clock.resume();
  }

  /**
   * Stops measuring until `resume`. Callers call `pause` before work whose duration differs between ranks,
   * such as an evaluation, and `resume` after it.
   */
  pause(): void {
    this.#options.clock.pause();
  }

  /** Runs the passes, wrapped by the clock if the clock has the method `passes`. */
  aroundPasses(iteration: number, passes: () => void): void {
    const { clock } = this.#options;
    if (clock.passes === undefined) passes();
    else clock.passes(iteration, passes);
  }

  /**
   * Records a step. Returns the events of the report, if any, that the ranks gathered after the previous
   * step.
   */
  afterStep({ iteration }: Pick<StepMetrics, 'iteration'>): readonly TrainingEvent[] {
    const events = this.#finish();
    this.#numSteps += 1;
    this.#options.clock.step(iteration);
    if (this.#numSteps < this.#stepsOfReport || !this.#options.clock.hasTimes) return events;
    this.pause();
    this.#gather(iteration);
    this.resume();
    return events;
  }

  /**
   * Ends the watch after the last step. Returns the events of the report that is still being gathered, and of
   * a report about the steps since then.
   */
  end(iteration: number): readonly TrainingEvent[] {
    const events = this.#finish();
    if (this.#numSteps === 0 || !this.#options.clock.hasTimes) return events;
    this.pause();
    this.#gather(iteration);
    return [...events, ...this.#finish()];
  }

  #finish(): readonly TrainingEvent[] {
    const gathered = this.#gathering;
    if (gathered === undefined) return [];
    this.#gathering = undefined;
    gathered.work.wait();
    const numbers = gathered.output.toArray();
    gathered.output.dispose();
    gathered.input.dispose();
    const of = (which: number): number[] =>
      Array.from({ length: this.#options.world.size }, (_, rank) => numbers[rank * numNumbers + which]!);
    const { iteration, numSteps } = gathered;
    const [computeMs, waitedMs, peakBytes] = [of(0), of(1), of(2)];
    this.#stepsOfReport = this.#countSteps(Math.max(...computeMs.map((ms, rank) => ms + waitedMs[rank]!)));
    const record: TrainingEvent = {
      type: 'ranks',
      iteration,
      fields: {
        ...(this.#isFirstReport ? { hosts: this.#options.hosts } : {}),
        compute_ms: computeMs,
        waited_ms: waitedMs,
        peak_bytes: peakBytes,
      },
    };
    this.#isFirstReport = false;
    return [record, ...this.#finder.add({ iteration, numSteps, computeMs })];
  }

  /**
   * Returns the smallest multiple of the interval whose steps take at least the minimum time. All ranks
   * compute the same result from the same values.
   */
  #countSteps(stepMs: number): number {
    const { interval } = this.#options;
    const leastMs = this.#options.leastReportMs ?? leastReportMs;
    return interval * Math.max(1, Math.ceil(leastMs / (stepMs * interval)));
  }

  #gather(iteration: number): void {
    const { world, clock, peakBytes } = this.#options;
    const { computeMs, waitedMs } = clock.take();
    // the tensors are in host memory, because reading device memory would wait for the device
    const own = [computeMs, waitedMs, peakBytes()];
    const input = Tensor.from(own, { shape: [numNumbers], dtype: 'float64' });
    const output = Tensor.zeros({ shape: [numNumbers * world.size], dtype: 'float64' });
    const numSteps = this.#numSteps;
    this.#gathering = { iteration, numSteps, input, output, work: world.allGather({ output, input }) };
    this.#numSteps = 0;
  }
}
