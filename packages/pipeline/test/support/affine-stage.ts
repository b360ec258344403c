import { Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '../../src/index.js';

/** One micro-batch of the chain: input numbers and their targets. */
export interface AffineBatch {
  readonly values: readonly number[];
  readonly targets: readonly number[];
}

/**
 * The durations of the passes of a stage, in milliseconds. The stage sleeps for this time instead of
 * computing, since there may be more ranks than cores.
 */
export interface PassMilliseconds {
  readonly forward: number;
  readonly backwardInput: number;
  readonly backwardWeight: number;
}

export interface AffineStageOptions {
  readonly chunk: number;
  readonly numChunks: number;
  readonly times?: PassMilliseconds | undefined;
  /** The tensors that each micro-batch keeps until the halves of its backward are done. */
  readonly kept?: KeptElements | undefined;
  readonly live?: LiveCount | undefined;
}

/**
 * The numbers of float64 elements that a micro-batch keeps; the elements kept until the weight half are also
 * part of the elements kept until the input half.
 */
export interface KeptElements {
  readonly untilInput: number;
  readonly untilWeight: number;
}

/**
 * Returns the parameters of a chunk, which computes y = factor * x + offset. They are multiples of one half,
 * so that float64 arithmetic is exact in chains of up to 16 chunks, and sums do not depend on their order.
 */
export function affineParameters(chunk: number): { readonly factor: number; readonly offset: number } {
  return { factor: [1, 1.5, -1, 0.5, 1][chunk % 5]!, offset: (chunk % 3) - 1 };
}

/**
 * Counts the live tensors of a rank: stages report each tensor that they make or release. Shared by the
 * rank's stages.
 */
export class LiveCount {
  readonly now = { untilInput: 0, untilWeight: 0 };
  readonly peak = { numUntilInput: 0, numUntilWeight: 0, numAlive: 0 };

  add(change: { readonly untilInput?: number; readonly untilWeight?: number }): void {
    this.now.untilInput += change.untilInput ?? 0;
    this.now.untilWeight += change.untilWeight ?? 0;
    const { untilInput, untilWeight } = this.now;
    this.peak.numUntilInput = Math.max(this.peak.numUntilInput, untilInput);
    this.peak.numUntilWeight = Math.max(this.peak.numUntilWeight, untilWeight);
    this.peak.numAlive = Math.max(this.peak.numAlive, untilInput + untilWeight);
  }
}

interface InFlight {
  readonly input: readonly number[];
  readonly output: readonly number[];
  readonly call: StageForward<AffineBatch>;
  untilInput: Tensor | undefined;
  untilWeight: Tensor | undefined;
  gradient: readonly number[] | undefined;
}

/**
 * A stage whose gradients are known in closed form: a chain of y = a x + b on vectors, with the loss (y -
 * target)^2 / 2. Arithmetic and boundary tensors are in float64.
 */
export class AffineStage implements Stage<AffineBatch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** The gradients of factor and offset, summed over all passes so far. */
  readonly gradients = { factor: 0, offset: 0 };
  readonly #options: AffineStageOptions;
  readonly #inFlight = new Map<number, InFlight>();
  readonly #losses = new Map<number, InFlight>();

  constructor(options: AffineStageOptions) {
    this.#options = options;
    this.isFirst = options.chunk === 0;
    this.isLast = options.chunk === options.numChunks - 1;
  }

  get numInFlight(): number {
    return this.#inFlight.size;
  }

  boundaryShape({ values }: AffineBatch): readonly number[] {
    return [values.length, 1];
  }

  forward(call: StageForward<AffineBatch>): Tensor | undefined {
    const inFlight = this.#compute(call);
    const { untilInput = 0, untilWeight = 0 } = this.#options.kept ?? {};
    inFlight.untilInput = keep(untilInput - untilWeight);
    inFlight.untilWeight = keep(untilWeight);
    this.#inFlight.set(call.microBatch, inFlight);
    this.#options.live?.add({ untilInput: 1 });
    return this.#boundary(inFlight.output, this.isLast);
  }

  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined {
    const { times, chunk } = this.#options;
    const end = later(
      (times?.backwardInput ?? 0) + (call.weights === true ? (times?.backwardWeight ?? 0) : 0),
    );
    const inFlight = this.#inFlight.get(call.microBatch)!;
    const { batch, lossFactors } = inFlight.call;
    const gradient = this.isLast
      ? inFlight.output.map((value, index) => lossFactors.loss! * (value - batch.targets[index]!))
      : call.outputGradient!.toArray();
    inFlight.gradient = gradient;
    inFlight.untilInput?.dispose();
    this.#options.live?.add({ untilInput: -1, untilWeight: call.weights === true ? 0 : 1 });
    if (this.isLast) this.#losses.set(call.microBatch, inFlight);
    if (call.weights === true) this.#finish(call.microBatch);
    sleepUntil(end);
    const { factor } = affineParameters(chunk);
    return this.#boundary(
      gradient.map((value) => factor * value),
      this.isFirst,
    );
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    const end = later(this.#options.times?.backwardWeight ?? 0);
    this.#options.live?.add({ untilWeight: -1 });
    this.#finish(microBatch);
    sleepUntil(end);
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const inFlight = this.#losses.get(microBatch);
    if (inFlight === undefined) return [];
    this.#losses.delete(microBatch);
    const { output, call } = inFlight;
    const options = { shape: [output.length], dtype: 'float32' } as const;
    const losses = Tensor.from(
      output.map((value, index) => (value - call.batch.targets[index]!) ** 2 / 2),
      options,
    );
    const weights = Tensor.from(
      output.map(() => call.lossFactors.loss!),
      options,
    );
    const dispose = (): void => {
      losses.dispose();
      weights.dispose();
    };
    return [{ name: 'loss', losses, weights, dispose }];
  }

  evaluate(call: StageForward<AffineBatch>): Tensor | undefined {
    const inFlight = this.#compute(call);
    if (this.isLast) this.#losses.set(call.microBatch, inFlight);
    return this.#boundary(inFlight.output, this.isLast);
  }

  abandon(): void {
    for (const { untilInput, untilWeight } of this.#inFlight.values()) {
      untilInput?.dispose();
      untilWeight?.dispose();
    }
    this.#inFlight.clear();
    this.#losses.clear();
  }

  #compute(call: StageForward<AffineBatch>): InFlight {
    const { times, chunk } = this.#options;
    const end = later(times?.forward ?? 0);
    const { factor, offset } = affineParameters(chunk);
    const input = call.input === undefined ? call.batch.values : call.input.toArray();
    const output = input.map((value) => factor * value + offset);
    sleepUntil(end);
    return { input, output, call, untilInput: undefined, untilWeight: undefined, gradient: undefined };
  }

  #finish(microBatch: number): void {
    const { input, gradient, untilWeight } = this.#inFlight.get(microBatch)!;
    input.forEach((value, index) => {
      this.gradients.factor += gradient![index]! * value;
      this.gradients.offset += gradient![index]!;
    });
    untilWeight?.dispose();
    this.#inFlight.delete(microBatch);
  }

  #boundary(values: readonly number[], atEnd: boolean): Tensor | undefined {
    return atEnd ? undefined : Tensor.from(values, { shape: [values.length, 1], dtype: 'float64' });
  }
}

const nothing = new Int32Array(new SharedArrayBuffer(4));

/**
 * Returns the time at which an activity that starts now and takes that long ends; undefined for a duration of
 * 0.
 */
function later(milliseconds: number): number | undefined {
  return milliseconds > 0 ? performance.now() + milliseconds : undefined;
}

/** Sleeps until the given end of a pass, so that the pass's own work is part of its duration. */
function sleepUntil(end: number | undefined): void {
  if (end !== undefined) Atomics.wait(nothing, 0, 0, Math.max(0, end - performance.now()));
}

function keep(numElements: number): Tensor | undefined {
  return numElements > 0 ? Tensor.empty({ shape: [numElements], dtype: 'float64' }) : undefined;
}
