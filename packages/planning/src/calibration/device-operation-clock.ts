import { type Device, DeviceMark, observeOperations, synchronize, Tensor } from '@mtl/kernels';
import type { RecordedActivity } from '@mtl/pipeline/schedules';
import type { DryRunListener } from '../dry-run/dry-run-rank.js';
import { type RecordedOperation, recordedOperation } from '../plan/recorded-operation.js';
import { medianWithSpread } from './measured-points.js';
import { addSample, newTimedStep, type TimedStep } from './operation-clock.js';

export interface DeviceOperationClockOptions {
  readonly device: Device;
  /**
   * The number of steps at the start, at least one, in which memory is allocated and algorithms are chosen.
   */
  readonly numWarmUpSteps: number;
  /**
   * The number of steps after the warm-up that run without marks, as in training, to measure host times.
   * Later steps have marks.
   */
  readonly numPlainSteps: number;
}

/**
 * A mark on the device, with the operation since the previous mark. The operation is undefined for the first
 * mark of a pass and after communication.
 */
interface MarkedOperation {
  readonly mark: DeviceMark;
  readonly operation: RecordedOperation | undefined;
}

type SpanKind = RecordedActivity['kind'];

/**
 * Times the operations of a training run's passes and optimizer on a device that runs asynchronously. Each
 * operation is between two marks on the device, and the device must not wait for the host between marks.
 * Before each pass, the device therefore gets extra work that takes as long as enqueuing the pass. The host
 * time of operations and steps is measured in steps without marks.
 */
export class DeviceOperationClock implements DryRunListener, Disposable {
  /** The steps with marks; `stepSeconds` is the time of a step without its passes and its optimizer. */
  readonly steps: TimedStep[] = [];
  readonly #options: DeviceOperationClockOptions;
  readonly #delay: DeviceDelay;
  /**
   * Host seconds per operation. There is a value for each pass and optimizer update in steps without marks.
   */
  readonly #hostSeconds: number[] = [];
  readonly #plainSeconds: number[] = [];
  /** Host seconds to enqueue a pass, by kind: the longest time in steps without marks. */
  readonly #enqueueSeconds = new Map<SpanKind, number>();
  #state: 'warm-up' | 'plain' | 'marked' = 'warm-up';
  #stepStart = 0;
  #marks: MarkedOperation[] = [];

  constructor(options: DeviceOperationClockOptions) {
    this.#options = options;
    this.#delay = new DeviceDelay(options.device);
  }

  /**
   * Returns the median of host seconds per operation over the passes; 0 before the first step without marks.
   */
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

  /**
   * Sets a mark after simulated communication, so that the communication does not count in the time of the
   * next operation.
   */
  readonly onOperation = (): void => {
    if (this.#marks.length > 0) this.#mark(undefined);
  };

  readonly onWait = this.onOperation;

  /** Frees the memory of the extra work, which keeps the device busy while the host enqueues. */
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

  /** Reads the marks of a step, and returns its times. */
  #markedStep(): TimedStep {
    const step = newTimedStep();
    const hostSeconds = this.hostSecondsPerOperation;
    /**
     * Predicted seconds of the step without marks: for each pass the maximum of device time and host time.
     */
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

/** The number of float32 elements that a call sets to zero: 64 MiB. */
const delayElements = 2 ** 24;
const longestDelaySeconds = 0.02;

/** Extra work that keeps a device busy. */
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

  /** Enqueues work that takes twice the given time, but at most 20 milliseconds. */
  enqueue(seconds: number): void {
    const wanted = Math.min(2 * seconds, longestDelaySeconds);
    for (let done = 0; done < wanted; done += this.#secondsPerCall) this.#tensor.zero();
  }

  [Symbol.dispose](): void {
    this.#tensor.dispose();
  }
}
