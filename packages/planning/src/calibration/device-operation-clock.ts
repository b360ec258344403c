import { type Device, DeviceMark, synchronize, Tensor } from '@mtl/kernels';
import { observeOperations } from '@mtl/kernels/internal';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import type { DryRunListener } from '../dry-run/dry-run-rank.js';
import { type RecordedOperation, recordedOperation } from '../plan/recorded-operation.js';
import { medianWithSpread } from './measured-points.js';
import { addSample, newTimedStep, type TimedStep } from './operation-clock.js';

export interface DeviceOperationClockOptions {
  readonly device: Device;
  /** Number of first steps, at least one, in which memory is allocated and algorithms are chosen. */
  readonly numWarmUpSteps: number;
  /**
   * Number of following steps that run as in training, in which the host is timed; later steps have marks.
   */
  readonly numPlainSteps: number;
}

/** A mark of the device, and the operation between the previous mark and this one; undefined for a start. */
interface MarkedOperation {
  readonly mark: DeviceMark;
  readonly operation: RecordedOperation | undefined;
}

type SpanKind = RecordedActivity['kind'];

/**
 * Times the operations of a training run's passes and optimizer on a device that works while the host
 * continues. Each operation is between two marks of the device, and the device must not wait for the host
 * between them. So before each pass the device gets extra work for the time that the host took to enqueue
 * that pass in earlier steps. The host time of an operation, and of a whole step, is measured in steps
 * without marks.
 */
export class DeviceOperationClock implements DryRunListener, Disposable {
  /** The steps with marks; `stepSeconds` is the time of a step beyond its passes and its optimizer. */
  readonly steps: TimedStep[] = [];
  readonly #options: DeviceOperationClockOptions;
  readonly #delay: DeviceDelay;
  /** Host seconds per operation, for each pass and optimizer of the steps without marks. */
  readonly #hostSeconds: number[] = [];
  readonly #plainSeconds: number[] = [];
  /** Host seconds to enqueue a pass of each kind, the longest of the steps without marks. */
  readonly #enqueueSeconds = new Map<SpanKind, number>();
  #state: 'warm-up' | 'plain' | 'marked' = 'warm-up';
  #stepStart = 0;
  #marks: MarkedOperation[] = [];

  constructor(options: DeviceOperationClockOptions) {
    this.#options = options;
    this.#delay = new DeviceDelay(options.device);
  }

  /** Returns the host seconds per operation, the median of passes; 0 before a step without marks. */
  get hostSecondsPerOperation(): number {
    return this.#hostSeconds.length === 0 ? 0 : medianWithSpread(this.#hostSeconds).median;
  }

  beginStep(step: number): void {
    const { device, numWarmUpSteps, numPlainSteps } = this.#options;
    const isPlain = step <= numWarmUpSteps + numPlainSteps;
    this.#state = step <= numWarmUpSteps ? 'warm-up' : isPlain ? 'plain' : 'marked';
    synchronize(device);
    this.#stepStart = performance.now();
  }

  endStep(): void {
    synchronize(this.#options.device);
    if (this.#state === 'plain') this.#plainSeconds.push((performance.now() - this.#stepStart) / 1000);
    if (this.#state === 'marked') this.steps.push(this.#markedStep());
  }

  span<Result>({ kind }: RecordedActivity, body: () => Result): Result {
    if (kind === 'step' || kind === 'wait' || kind === 'evaluation') return body();
    return this.#state === 'marked' ? this.#marked(kind, body) : this.#enqueued(kind, body);
  }

  /** Counts simulated communication as 0: it must not count for the next operation. */
  readonly onOperation = (): void => {
    if (this.#marks.length > 0) this.#mark(undefined);
  };

  readonly onWait = this.onOperation;

  /** Frees the memory of the delay work while the host enqueues. */
  [Symbol.dispose](): void {
    this.#delay[Symbol.dispose]();
    for (const { mark } of this.#marks) mark.dispose();
  }

  #enqueued<Result>(kind: SpanKind, body: () => Result): Result {
    let numOperations = 0;
    const start = performance.now();
    const result = observeOperations(() => void numOperations++, body);
    const seconds = (performance.now() - start) / 1000;
    if (this.#state === 'plain') {
      this.#enqueueSeconds.set(kind, Math.max(seconds, this.#enqueueSeconds.get(kind) ?? 0));
      if (numOperations > 0) this.#hostSeconds.push(seconds / numOperations);
    }
    return result;
  }

  #marked<Result>(kind: SpanKind, body: () => Result): Result {
    this.#delay.enqueue(this.#enqueueSeconds.get(kind) ?? 0);
    this.#mark(undefined);
    return observeOperations((name, operands, { flops }) => {
      this.#mark(recordedOperation({ name, operands }, flops));
    }, body);
  }

  #mark(operation: RecordedOperation | undefined): void {
    this.#marks.push({ mark: new DeviceMark(this.#options.device), operation });
  }

  /** Reads the marks of a step. */
  #markedStep(): TimedStep {
    const step = newTimedStep();
    const hostSeconds = this.hostSecondsPerOperation;
    /** Seconds of a step without marks: for each pass the maximum of device time and host time. */
    let expected = 0;
    let [ofDevice, ofHost] = [0, 0];
    for (const [index, { mark, operation }] of this.#marks.entries()) {
      if (operation === undefined) {
        expected += Math.max(ofDevice, ofHost);
        [ofDevice, ofHost] = [0, 0];
        continue;
      }
      const seconds = mark.millisecondsSince(this.#marks[index - 1]!.mark) / 1000;
      addSample(step, { operation, seconds });
      ofDevice += seconds;
      ofHost += hostSeconds;
    }
    expected += Math.max(ofDevice, ofHost);
    for (const { mark } of this.#marks) mark.dispose();
    this.#marks = [];
    const plain = this.#plainSeconds.length === 0 ? 0 : medianWithSpread(this.#plainSeconds).median;
    step.stepSeconds = Math.max(0, plain - expected);
    return step;
  }
}

/** Number of elements that the device sets to zero at a time: 64 MiB. */
const delayElements = 2 ** 24;
const longestDelaySeconds = 0.02;

/** Work that keeps a device busy. */
class DeviceDelay implements Disposable {
  readonly #tensor: Tensor;
  readonly #secondsPerCall: number;

  constructor(device: Device) {
    this.#tensor = Tensor.zeros({ shape: [delayElements], dtype: 'float32', device });
    const numCalls = 4;
    using start = new DeviceMark(device);
    for (let call = 0; call < numCalls; call++) this.#tensor.zero();
    using end = new DeviceMark(device);
    this.#secondsPerCall = Math.max(end.millisecondsSince(start) / 1000 / numCalls, 1e-6);
  }

  /** Enqueues work for twice the given time, at most a fiftieth of a second. */
  enqueue(seconds: number): void {
    const wanted = Math.min(2 * seconds, longestDelaySeconds);
    for (let done = 0; done < wanted; done += this.#secondsPerCall) this.#tensor.zero();
  }

  [Symbol.dispose](): void {
    this.#tensor.dispose();
  }
}
