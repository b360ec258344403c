import type { Parameter, Tape, Variable } from '@mtl/autograd';
import { Tensor } from '@mtl/kernels';
import { replicatedParameter } from '@mtl/tensor-parallel';
import {
  type ColumnLayer,
  type FeedForwardSpecification,
  feedForwards,
  type LayerSharding,
  type MicroBatchContext,
  type Norm,
  type NormOptions,
  type NormSpecification,
  norms,
  type RowLayer,
  type Sublayer,
  type SublayerInput,
  type SublayerOptions,
} from '../../src/index.js';

/** A norm and a feed-forward network that only this file knows; their operations run on the host. */

interface ScaledNormSpecification extends NormSpecification {
  readonly kind: 'root-mean-square';
  readonly scale: number;
}

interface PowerFeedForwardSpecification extends FeedForwardSpecification {
  readonly kind: 'power-relu';
  readonly power: number;
  /** The layers whose activations have a loss. Default: none. */
  readonly lossLayers?: readonly number[];
}

export const ownNorm: ScaledNormSpecification = { kind: 'root-mean-square', epsilon: 1e-5, scale: 1.5 };

/** The loss of activations: the mean over all tokens of half the mean square of their features. */
export const activationLoss = 'activation_loss';

export const ownFeedForward: PowerFeedForwardSpecification = {
  kind: 'power-relu',
  ffnHiddenSize: 48,
  bias: false,
  power: 2,
};

/**
 * A norm: scale * weight * x / sqrt(mean(x^2) + epsilon), with a weight and no bias. It reads the sharding
 * under the name that options had before there was a factory.
 */
class RootMeanSquareNorm implements Norm {
  readonly parameters: readonly Parameter[];
  readonly #weight: Parameter;
  readonly #specification: ScaledNormSpecification;

  constructor({ name, hiddenSize, specification, tensorParallel }: NormOptions<ScaledNormSpecification>) {
    const initialization = { kind: 'ones' } as const;
    this.#weight = replicatedParameter({
      name: `${name}.weight`,
      globalShape: [hiddenSize],
      initialization,
      tensorParallel,
    });
    this.parameters = [this.#weight];
    this.#specification = specification;
  }

  forward(tape: Tape, input: Variable): Variable {
    const weight = this.#weight;
    const { epsilon, scale } = this.#specification;
    const { shape, device, dtype } = input.tensor;
    const width = weight.size;
    const inverses = (x: Float32Array): number[] =>
      Array.from({ length: x.length / width }, (_, row) => {
        const values = x.subarray(row * width, (row + 1) * width);
        return 1 / Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / width + epsilon);
      });
    const x = input.tensor.read<'float32'>();
    const w = weight.data.read<'float32'>();
    const r = inverses(x);
    const y = x.map((value, index) => scale * w[index % width]! * value * r[Math.floor(index / width)]!);
    const result = tape.result(Tensor.from(y, { shape, dtype, device }), { requiresGradient: true });
    tape.record(result, () => ({
      name: 'rootMeanSquareNorm',
      inputs: [input],
      parameters: [weight],
      saved: [],
      backward: ({ parts, outputGradient }) => {
        const gradient = outputGradient!.read<'float32'>().map((value) => value * scale);
        if (parts.weight) {
          const sums = weight.mainGradient.read<'float32'>();
          gradient.forEach((value, index) => {
            sums[index % width]! += value * x[index]! * r[Math.floor(index / width)]!;
          });
          weight.mainGradient.write(sums);
        }
        if (!parts.input || !input.requiresGradient) return [undefined];
        const dots = r.map((_, row) => {
          let dot = 0;
          for (let i = 0; i < width; i++) dot += gradient[row * width + i]! * w[i]! * x[row * width + i]!;
          return dot / width;
        });
        const inputGradient = gradient.map((value, index) => {
          const row = Math.floor(index / width);
          return r[row]! * (w[index % width]! * value - x[index]! * r[row]! ** 2 * dots[row]!);
        });
        return [Tensor.from(inputGradient, { shape, dtype, device })];
      },
    }));
    return result;
  }
}

/** Computes max(x, 0) ^ power, times 1 + position / 16: [S, B, F] with positions [S, B]. */
function powerRelu(
  tape: Tape,
  input: Variable,
  { power, positions }: { readonly power: number; readonly positions: Variable },
): Variable {
  const { shape, device, dtype } = input.tensor;
  const x = input.tensor.read<'float32'>();
  const ofRows = positions.tensor.read<'int32'>();
  const computeScale = (index: number): number => 1 + ofRows[Math.floor(index / shape.at(-1)!)]! / 16;
  const y = x.map((value, index) => computeScale(index) * Math.max(value, 0) ** power);
  const result = tape.result(Tensor.from(y, { shape, dtype, device }), {
    requiresGradient: input.requiresGradient,
  });
  tape.record(result, () => ({
    name: 'powerRelu',
    inputs: [input],
    parameters: [],
    saved: [],
    backward: ({ outputGradient }) => {
      const gradient = outputGradient!.read<'float32'>();
      const inputGradient = gradient.map(
        (value, index) => computeScale(index) * value * power * Math.max(x[index]!, 0) ** (power - 1),
      );
      return [Tensor.from(inputGradient, { shape, dtype, device })];
    },
  }));
  return result;
}

/**
 * Returns the sum over all tokens of half the mean square of their features. Each rank has a shard of the
 * features; the result is the same on all ranks.
 */
function sumOfSquares(
  tape: Tape,
  call: {
    readonly input: Variable;
    readonly numFeatures: number;
    readonly factor: number;
    readonly sharding: LayerSharding;
  },
): Variable {
  const { input, numFeatures, factor, sharding } = call;
  const { shape, device, dtype } = input.tensor;
  const x = input.tensor.read<'float32'>();
  const own = x.reduce((sum, value) => sum + value * value, 0) / (2 * numFeatures);
  const sum = Tensor.from([own], { shape: [1], dtype: 'float32', device });
  sharding?.group.allReduce(sum).wait();
  const result = tape.result(sum, { requiresGradient: input.requiresGradient });
  tape.record(result, () => ({
    name: 'sumOfSquares',
    inputs: [input],
    parameters: [],
    saved: [],
    backward: () => {
      const gradient = x.map((value) => (value * factor) / numFeatures);
      return [Tensor.from(gradient, { shape, dtype, device })];
    },
  }));
  return result;
}

/** Two linear layers without biases, with a power of ReLU between them that depends on the position. */
class PowerReluFeedForward implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly reads = ['regionPositions'] as const;
  readonly losses: readonly string[];
  readonly #power: number;
  readonly #numFeatures: number;
  readonly #up: ColumnLayer;
  readonly #down: RowLayer;

  constructor(options: SublayerOptions<PowerFeedForwardSpecification>) {
    const { name, layer, hiddenSize, specification, initialization, factory } = options;
    const { ffnHiddenSize, bias, power, lossLayers = [] } = specification;
    const common = { what: 'own features', bias };
    this.losses = lossLayers.includes(layer) ? [activationLoss] : [];
    this.#power = power;
    this.#numFeatures = ffnHiddenSize;
    this.#up = factory.column({
      ...common,
      name: `${name}.linear_fc1`,
      inputs: hiddenSize,
      outputs: [ffnHiddenSize],
      standardDeviation: initialization.standardDeviation,
    });
    this.#down = factory.row({
      ...common,
      name: `${name}.linear_fc2`,
      inputs: { numGroups: ffnHiddenSize, groupSize: 1 },
      outputs: hiddenSize,
      standardDeviation: initialization.residualStandardDeviation,
    });
    this.parameters = [...this.#up.parameters, ...this.#down.parameters];
  }

  forward(tape: Tape, { input, residual, dropout }: SublayerInput, context: MicroBatchContext): Variable {
    const { sharding, rows, losses } = context;
    const features = this.#up.forward(tape, input, context);
    const positions = rows.of('regionPositions');
    const activated = powerRelu(tape, features, { power: this.#power, positions });
    for (const name of losses === undefined ? [] : this.losses) {
      const weights = losses!.factor(name);
      const factor = weights.tensor.item();
      const of = { input: activated, numFeatures: this.#numFeatures, factor, sharding };
      losses!.add(tape, { name, losses: sumOfSquares(tape, of), weights });
    }
    return this.#down.forward(tape, { input: activated, dropout, residual }, context);
  }
}

norms.register(
  ownNorm.kind,
  (options: NormOptions<ScaledNormSpecification>) => new RootMeanSquareNorm(options),
);
feedForwards.register(
  ownFeedForward.kind,
  (options: SublayerOptions<PowerFeedForwardSpecification>) => new PowerReluFeedForward(options),
);
