import type { ProcessGroup, Work } from '@mtl/comm';
import { type Device, deviceOfValues, Tensor } from '@mtl/kernels';
import type { TrainingEvent } from '../training-event.js';
import { SlowRankFinder, type SlowRankFinderOptions } from './slow-rank-finder.js';

export interface RankWatchOptions extends SlowRankFinderOptions {
  /** Of all ranks. */
  readonly world: ProcessGroup;
  /** Seconds that this rank has waited in communication since its start. */
  readonly waitedSeconds: () => number;
  /** Bytes of tensors at the peak of this rank. */
  readonly peakBytes: () => number;
  readonly device: Device;
  /** Reports are after multiples of so many steps. */
  readonly interval: number;
  /** Milliseconds of steps between two reports at least, whatever the interval. Default: 5 s. */
  readonly leastReportMs?: number | undefined;
  /** Milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What each rank tells of an interval. */
const numNumbers = 3;
/** A report costs a rank less than a thousandth of this (bench/rank-watch.ts). */
const leastReportMs = 5000;

/**
 * Measures what each rank computes, without the time that it waits in communication, and gathers it from all
 * ranks every interval, or every few intervals where steps are short: ranks agree on their number by what
 * they gathered before. Gathering overlaps with the step that follows; clocks are read between reports, so
 * that steps cost nothing. All ranks call its methods alike.
 */
export class RankWatch {
  readonly #options: RankWatchOptions;
  readonly #now: () => number;
  readonly #finder: SlowRankFinder;
  #mark: { readonly ms: number; readonly waitedSeconds: number } | undefined;
  #numSteps = 0;
  /** Steps from one report to the next. */
  #stepsOfReport: number;
  #computeMs = 0;
  #waitedMs = 0;
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
    this.#now = options.now ?? (() => performance.now());
    this.#finder = new SlowRankFinder(options);
    this.#stepsOfReport = options.interval;
  }

  /** Measures from here on. */
  resume(): void {
    this.#mark = { ms: this.#now(), waitedSeconds: this.#options.waitedSeconds() };
  }

  /** Leaves out what follows, such as an evaluation, which not all ranks spend alike. */
  pause(): void {
    if (this.#mark === undefined) return;
    const waitedMs = 1000 * (this.#options.waitedSeconds() - this.#mark.waitedSeconds);
    this.#waitedMs += waitedMs;
    this.#computeMs += this.#now() - this.#mark.ms - waitedMs;
    this.#mark = undefined;
  }

  /** Takes note of a step. Returns what the ranks told of the steps before it, one step after they told. */
  step(iteration: number): readonly TrainingEvent[] {
    const events = this.#finish();
    this.#numSteps += 1;
    if (this.#numSteps < this.#stepsOfReport) return events;
    this.pause();
    this.#gather(iteration);
    this.resume();
    return events;
  }

  /** After the last step: what is still being gathered, and what ranks tell of the steps since. */
  end(iteration: number): readonly TrainingEvent[] {
    const events = this.#finish();
    if (this.#numSteps === 0) return events;
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
    this.#stepsOfReport = this.#stepsOf(Math.max(...computeMs.map((ms, rank) => ms + waitedMs[rank]!)));
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

  /** The first multiple of the interval that takes long enough, by numbers that all ranks have. */
  #stepsOf(stepMs: number): number {
    const { interval } = this.#options;
    const leastMs = this.#options.leastReportMs ?? leastReportMs;
    return interval * Math.max(1, Math.ceil(leastMs / (stepMs * interval)));
  }

  #gather(iteration: number): void {
    const { world, peakBytes } = this.#options;
    const device = deviceOfValues(this.#options.device);
    const own = [this.#computeMs / this.#numSteps, this.#waitedMs / this.#numSteps, peakBytes()];
    const input = Tensor.from(own, { shape: [numNumbers], dtype: 'float64', device });
    const output = Tensor.zeros({ shape: [numNumbers * world.size], dtype: 'float64', device });
    const numSteps = this.#numSteps;
    this.#gathering = { iteration, numSteps, input, output, work: world.allGather({ output, input }) };
    this.#numSteps = 0;
    this.#computeMs = 0;
    this.#waitedMs = 0;
  }
}
