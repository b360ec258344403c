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
  /** Bytes of tensors at the peak of this rank. */
  readonly peakBytes: () => number;
  /** Number of steps between reports: a report follows each multiple of it. */
  readonly interval: number;
  /** Minimum time of the steps between two reports, in milliseconds, for every interval. Default: 5 s. */
  readonly leastReportMs?: number | undefined;
}

/** Number of values that each rank reports about an interval. */
const numNumbers = 3;
/**
 * The minimum time between reports, in milliseconds. A report costs a rank less than a thousandth of this
 * time (bench/rank-watch.ts).
 */
const leastReportMs = 5000;

/**
 * Gathers the computation time of every rank, without its waits for communication, at every interval. Where
 * steps are short, it gathers every few intervals; ranks agree on the number by values that they gathered
 * before. Gathering overlaps with the next step. All ranks call the methods alike.
 */
export class RankWatch implements TrainerExtension {
  readonly name = 'rankWatch';
  readonly #options: RankWatchOptions;
  readonly #finder: SlowRankFinder;
  #numSteps = 0;
  /** Steps from one report to the next. */
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

  /** Stops measuring, for work that takes different times on different ranks, such as an evaluation. */
  pause(): void {
    this.#options.clock.pause();
  }

  /** Runs the passes. If the device waits for communication instead of the host, its clock measures them. */
  aroundPasses(iteration: number, passes: () => void): void {
    const { clock } = this.#options;
    if (clock.passes === undefined) passes();
    else clock.passes(iteration, passes);
  }

  /** Records a step. Returns the events of the last report, one step after the ranks gathered it. */
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
   * Ends the watch after the last step. Returns the report that is still being gathered, and a report of the
   * steps since.
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
   * Returns the first multiple of the interval that takes long enough, computed from numbers that all ranks
   * have.
   */
  #countSteps(stepMs: number): number {
    const { interval } = this.#options;
    const leastMs = this.#options.leastReportMs ?? leastReportMs;
    return interval * Math.max(1, Math.ceil(leastMs / (stepMs * interval)));
  }

  #gather(iteration: number): void {
    const { world, clock, peakBytes } = this.#options;
    const { computeMs, waitedMs } = clock.take();
    // in host memory, whatever the device: reading it does not wait for the device
    const own = [computeMs, waitedMs, peakBytes()];
    const input = Tensor.from(own, { shape: [numNumbers], dtype: 'float64' });
    const output = Tensor.zeros({ shape: [numNumbers * world.size], dtype: 'float64' });
    const numSteps = this.#numSteps;
    this.#gathering = { iteration, numSteps, input, output, work: world.allGather({ output, input }) };
    this.#numSteps = 0;
  }
}
