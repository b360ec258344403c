import { Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '../../src/index.js';

/** One micro-batch of the chain: numbers that go in, and what they should become. */
export interface AffineBatch {
  readonly values: readonly number[];
  readonly targets: readonly number[];
}

/** How long the passes of a stage take, in milliseconds, slept and not worked: ranks may outnumber cores. */
export interface PassMilliseconds {
  readonly forward: number;
  readonly backwardInput: number;
  readonly backwardWeight: number;
}

export interface AffineStageOptions {
  readonly chunk: number;
  readonly numChunks: number;
  readonly times?: PassMilliseconds | undefined;
  /** Elements (float64) that each micro-batch keeps until the halves of its backward are done. */
  readonly kept?: { readonly untilInput: number; readonly untilWeight: number } | undefined;
}

/** What a chunk computes: y = factor * x + offset. Dyadic, so that float64 makes no rounding errors in short chains. */
export function affineParameters(chunk: number): { readonly factor: number; readonly offset: number } {
  return { factor: 1 + ((chunk % 5) - 1) / 8, offset: (chunk % 3) - 1 };
}

interface Flight {
  readonly input: readonly number[];
  readonly output: readonly number[];
  readonly call: StageForward<AffineBatch>;
  untilInput: Tensor | undefined;
  untilWeight: Tensor | undefined;
  gradient: readonly number[] | undefined;
}

/**
 * A stage whose gradients are known in closed form: a chain of y = a x + b on vectors of numbers, with the loss
 * (y - target)^2 / 2. Arithmetic is in float64, and so are its boundary tensors.
 */
export class AffineStage implements Stage<AffineBatch> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** Sums over everything that ran: of the factor and of the offset. */
  readonly gradients = { factor: 0, offset: 0 };
  /** Most micro-batches that were between forward and the end of backward. */
  mostInFlight = 0;
  readonly #options: AffineStageOptions;
  readonly #flights = new Map<number, Flight>();
  readonly #losses = new Map<number, Flight>();

  constructor(options: AffineStageOptions) {
    this.#options = options;
    this.isFirst = options.chunk === 0;
    this.isLast = options.chunk === options.numChunks - 1;
  }

  get numInFlight(): number {
    return this.#flights.size;
  }

  boundaryShape({ values }: AffineBatch): readonly number[] {
    return [values.length, 1];
  }

  forward(call: StageForward<AffineBatch>): Tensor | undefined {
    const flight = this.#compute(call);
    const { untilInput = 0, untilWeight = 0 } = this.#options.kept ?? {};
    flight.untilInput = keep(untilInput - untilWeight);
    flight.untilWeight = keep(untilWeight);
    this.#flights.set(call.microBatch, flight);
    this.mostInFlight = Math.max(this.mostInFlight, this.#flights.size);
    return this.#boundary(flight.output, this.isLast);
  }

  backwardInput(call: {
    readonly microBatch: number;
    readonly outputGradient?: Tensor | undefined;
    readonly weights?: boolean;
  }): Tensor | undefined {
    const { times, chunk } = this.#options;
    sleep((times?.backwardInput ?? 0) + (call.weights === true ? (times?.backwardWeight ?? 0) : 0));
    const flight = this.#flights.get(call.microBatch)!;
    const { batch, lossFactor } = flight.call;
    const gradient = this.isLast
      ? flight.output.map((value, index) => lossFactor * (value - batch.targets[index]!))
      : call.outputGradient!.toArray();
    flight.gradient = gradient;
    flight.untilInput?.dispose();
    if (this.isLast) this.#losses.set(call.microBatch, flight);
    if (call.weights === true) this.#finish(call.microBatch);
    const { factor } = affineParameters(chunk);
    return this.#boundary(
      gradient.map((value) => factor * value),
      this.isFirst,
    );
  }

  backwardWeight({ microBatch }: { readonly microBatch: number }): void {
    sleep(this.#options.times?.backwardWeight ?? 0);
    this.#finish(microBatch);
  }

  takeLoss(microBatch: number): StageLoss {
    const { output, call } = this.#losses.get(microBatch)!;
    this.#losses.delete(microBatch);
    const options = { shape: [output.length], dtype: 'float32' } as const;
    const losses = Tensor.from(
      output.map((value, index) => (value - call.batch.targets[index]!) ** 2 / 2),
      options,
    );
    const weights = Tensor.from(
      output.map(() => call.lossFactor),
      options,
    );
    return {
      losses,
      weights,
      dispose: () => {
        losses.dispose();
        weights.dispose();
      },
    };
  }

  evaluate(call: StageForward<AffineBatch>): Tensor | undefined {
    const flight = this.#compute(call);
    if (this.isLast) this.#losses.set(call.microBatch, flight);
    return this.#boundary(flight.output, this.isLast);
  }

  abandon(): void {
    for (const { untilInput, untilWeight } of this.#flights.values()) {
      untilInput?.dispose();
      untilWeight?.dispose();
    }
    this.#flights.clear();
    this.#losses.clear();
  }

  #compute(call: StageForward<AffineBatch>): Flight {
    const { times, chunk } = this.#options;
    sleep(times?.forward ?? 0);
    const { factor, offset } = affineParameters(chunk);
    const input = call.input === undefined ? call.batch.values : call.input.toArray();
    const output = input.map((value) => factor * value + offset);
    return { input, output, call, untilInput: undefined, untilWeight: undefined, gradient: undefined };
  }

  #finish(microBatch: number): void {
    const { input, gradient, untilWeight } = this.#flights.get(microBatch)!;
    input.forEach((value, index) => {
      this.gradients.factor += gradient![index]! * value;
      this.gradients.offset += gradient![index]!;
    });
    untilWeight?.dispose();
    this.#flights.delete(microBatch);
  }

  #boundary(values: readonly number[], atEnd: boolean): Tensor | undefined {
    return atEnd ? undefined : Tensor.from(values, { shape: [values.length, 1], dtype: 'float64' });
  }
}

const nothing = new Int32Array(new SharedArrayBuffer(4));

function sleep(milliseconds: number): void {
  if (milliseconds > 0) Atomics.wait(nothing, 0, 0, milliseconds);
}

function keep(numElements: number): Tensor | undefined {
  return numElements > 0 ? Tensor.empty({ shape: [numElements], dtype: 'float64' }) : undefined;
}
