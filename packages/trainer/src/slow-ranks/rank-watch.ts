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
  /** Steps between two reports. */
  readonly interval: number;
  /** Milliseconds. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What each rank tells of an interval. */
const numNumbers = 3;

/**
 * Measures what each rank computes, without the time that it waits in communication, and gathers it from all
 * ranks every interval. Gathering overlaps with the step that follows; clocks are read between intervals, so
 * that steps cost nothing. All ranks call its methods alike.
 */
export class RankWatch {
  readonly #options: RankWatchOptions;
  readonly #now: () => number;
  readonly #finder: SlowRankFinder;
  #mark: { readonly ms: number; readonly waitedSeconds: number } | undefined;
  #numSteps = 0;
  #computeMs = 0;
  #waitedMs = 0;
  #isFirstReport = true;
  #gathering:
    | { readonly iteration: number; readonly output: Tensor; readonly input: Tensor; readonly work: Work }
    | undefined;

  constructor(options: RankWatchOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#finder = new SlowRankFinder(options);
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

  /** Takes note of a step. Returns what the ranks told of the interval before, one step after its end. */
  step(iteration: number): readonly TrainingEvent[] {
    const events = this.finish();
    this.#numSteps += 1;
    if (this.#numSteps < this.#options.interval) return events;
    this.pause();
    this.#gather(iteration);
    this.resume();
    return events;
  }

  /** What is still being gathered. */
  finish(): readonly TrainingEvent[] {
    const gathered = this.#gathering;
    if (gathered === undefined) return [];
    this.#gathering = undefined;
    gathered.work.wait();
    const numbers = gathered.output.toArray();
    gathered.output.dispose();
    gathered.input.dispose();
    const of = (which: number): number[] =>
      Array.from({ length: this.#options.world.size }, (_, rank) => numbers[rank * numNumbers + which]!);
    const { iteration } = gathered;
    const { interval } = this.#options;
    const computeMs = of(0);
    const record: TrainingEvent = {
      type: 'ranks',
      iteration,
      fields: {
        ...(this.#isFirstReport ? { hosts: this.#options.hosts } : {}),
        compute_ms: computeMs,
        waited_ms: of(1),
        peak_bytes: of(2),
      },
    };
    this.#isFirstReport = false;
    return [record, ...this.#finder.add({ iteration, numSteps: interval, computeMs })];
  }

  #gather(iteration: number): void {
    const { world, peakBytes } = this.#options;
    const device = deviceOfValues(this.#options.device);
    const own = [this.#computeMs / this.#numSteps, this.#waitedMs / this.#numSteps, peakBytes()];
    const input = Tensor.from(own, { shape: [numNumbers], dtype: 'float64', device });
    const output = Tensor.zeros({ shape: [numNumbers * world.size], dtype: 'float64', device });
    this.#gathering = { iteration, input, output, work: world.allGather({ output, input }) };
    this.#numSteps = 0;
    this.#computeMs = 0;
    this.#waitedMs = 0;
  }
}
