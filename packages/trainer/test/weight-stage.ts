import { Parameter } from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import type { Stage, StageForward, StageLoss } from '@mtl/pipeline';

export interface WeightStageOptions {
  readonly chunk: number;
  readonly numChunks: number;
  /** The name of the loss of the stage's own output; undefined: it computes none. */
  readonly ownLoss?: string | undefined;
}

interface InFlight {
  readonly input: readonly number[];
  readonly output: readonly number[];
  readonly losses: readonly { name: string; values: number[]; factor: number; slopes: number[] }[];
}

/**
 * A stage of one weight: y = w x. The last stage has the loss (y - 1)^2 / 2 of every number. Any stage may
 * have the loss y^2 / 2, so that every stage can make losses.
 */
export class WeightStage implements Stage<readonly number[]> {
  readonly isFirst: boolean;
  readonly isLast: boolean;
  readonly weight: Parameter;
  readonly #options: WeightStageOptions;
  readonly #inFlight = new Map<number, InFlight>();
  readonly #losses = new Map<number, InFlight>();

  constructor(options: WeightStageOptions) {
    const { chunk, numChunks } = options;
    this.#options = options;
    this.isFirst = chunk === 0;
    this.isLast = chunk === numChunks - 1;
    this.weight = new Parameter({
      name: `weights.${chunk}`,
      globalShape: [1],
      initialization: { kind: 'ones' },
    });
  }

  boundaryShape(batch: readonly number[]): readonly number[] {
    return [batch.length];
  }

  forward(call: StageForward<readonly number[]>): Tensor | undefined {
    this.#inFlight.set(call.microBatch, this.#run(call));
    return this.#boundary(this.#inFlight.get(call.microBatch)!.output, this.isLast);
  }

  evaluate(call: StageForward<readonly number[]>): Tensor | undefined {
    this.#losses.set(call.microBatch, this.#run(call));
    return this.#boundary(this.#losses.get(call.microBatch)!.output, this.isLast);
  }

  backwardInput(call: { microBatch: number; outputGradient?: Tensor | undefined }): Tensor | undefined {
    const inFlight = this.#inFlight.get(call.microBatch)!;
    this.#inFlight.delete(call.microBatch);
    this.#losses.set(call.microBatch, inFlight);
    const fromAbove = call.outputGradient?.toArray() ?? inFlight.output.map(() => 0);
    const gradient = fromAbove.map((value, index) =>
      inFlight.losses.reduce((sum, { slopes, factor }) => sum + factor * slopes[index]!, value),
    );
    const { mainGradient, data } = this.weight;
    const own = gradient.reduce((sum, value, index) => sum + value * inFlight.input[index]!, 0);
    mainGradient.write(Float32Array.of(mainGradient.item() + own));
    const weight = data.item();
    return this.#boundary(
      gradient.map((value) => weight * value),
      this.isFirst,
    );
  }

  backwardWeight(): void {
    throw new Error('this stage does both halves at once');
  }

  takeLosses(microBatch: number): readonly StageLoss[] {
    const { losses } = this.#losses.get(microBatch)!;
    this.#losses.delete(microBatch);
    return losses.map(({ name, values, factor }) => {
      const tensor = (numbers: number[]) =>
        Tensor.from(numbers, { shape: [numbers.length], dtype: 'float32' });
      const tensors = { losses: tensor(values), weights: tensor(values.map(() => factor)) };
      const dispose = (): void => {
        for (const each of Object.values(tensors)) each.dispose();
      };
      return { name, ...tensors, dispose };
    });
  }

  abandon(): void {
    this.#inFlight.clear();
    this.#losses.clear();
  }

  #run({ batch, input: boundary, lossFactors }: StageForward<readonly number[]>): InFlight {
    const input = boundary?.toArray() ?? batch;
    const weight = this.weight.data.item();
    const output = input.map((value) => weight * value);
    const loss = (name: string, slopes: number[]) => {
      const values = slopes.map((slope) => slope ** 2 / 2);
      return { name, values, slopes, factor: lossFactors[name] ?? Number.NaN };
    };
    const { ownLoss } = this.#options;
    const losses = [
      ...(ownLoss === undefined ? [] : [loss(ownLoss, [...output])]),
      ...(this.isLast
        ? [
            loss(
              'lm_loss',
              output.map((value) => value - 1),
            ),
          ]
        : []),
    ];
    return { input, output, losses };
  }

  #boundary(values: readonly number[], isEnd: boolean): Tensor | undefined {
    return isEnd ? undefined : Tensor.from(values, { shape: [values.length], dtype: 'float32' });
  }
}
