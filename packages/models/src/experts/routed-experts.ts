import { expertActivation, groupedBias, type Parameter, type Tape, type Variable } from '@mtl/autograd';
import type { DispatchedTokens } from '../blocks/layer-factory.js';
import type { ExpertLayer } from '../blocks/linear-layers.js';
import type { SublayerOptions } from '../blocks/sublayer.js';
import { type ExpertsSpecification, isGated } from './experts-specification.js';

/**
 * This process's routed experts: feed-forward networks of equal shape. Each expert has a matrix in
 * `linear_fc1.weight` ([E, F, H]; if gated, [E, 2, F, H]) and a matrix in `linear_fc2.weight` [E, H, F]. The
 * biases are [E, F] (if gated, [E, 2, F]) and [E, H]. Each expert may have low-rank adapters.
 */
export class RoutedExperts {
  readonly parameters: readonly Parameter[];
  readonly #specification: ExpertsSpecification;
  readonly #up: ExpertLayer;
  readonly #down: ExpertLayer;

  /** @throws ConfigurationError MTL_EXPERT_PARALLEL_SIZE if experts or features cannot be sharded evenly */
  constructor({
    name,
    hiddenSize,
    specification,
    initialization,
    factory,
  }: SublayerOptions<ExpertsSpecification>) {
    const { numExperts, ffnHiddenSize, activation, bias } = specification;
    const common = { numExperts, bias };
    this.#specification = specification;
    this.#up = factory.experts({
      ...common,
      name: `${name}.linear_fc1`,
      inputs: hiddenSize,
      outputs: isGated(activation) ? [2, ffnHiddenSize] : [ffnHiddenSize],
      features: 'outputs',
      standardDeviation: initialization.standardDeviation,
      adapters: { expertsFc1: 'all' },
    });
    this.#down = factory.experts({
      ...common,
      name: `${name}.linear_fc2`,
      inputs: ffnHiddenSize,
      outputs: [hiddenSize],
      features: 'inputs',
      standardDeviation: initialization.residualStandardDeviation,
      adapters: { expertsFc2: 'all' },
    });
    this.parameters = [...this.#up.parameters, ...this.#down.parameters];
  }

  /** The number of elements in the matrices of one expert. */
  get weightsOfExpert(): number {
    const { numExperts } = this.#specification;
    const countElements = ({ weight }: ExpertLayer): number =>
      weight.globalShape.reduce((product, size) => product * size, 1);
    return (countElements(this.#up) + countElements(this.#down)) / numExperts;
  }

  /** Returns the experts' outputs [R, 1, H], each multiplied by the probability of its row. */
  forward(tape: Tape, { rows, probabilities, offsets }: DispatchedTokens): Variable {
    const { kind: activation, clamp, linearOffset } = this.#specification.activation;
    const up = this.#up.forward(tape, { input: rows, offsets });
    rows.release();
    const activated = expertActivation(tape, {
      input: up,
      bias: this.#up.bias,
      probabilities,
      offsets,
      activation,
      clamp,
      linearOffset,
    });
    up.release();
    const output = this.#down.forward(tape, { input: activated, offsets });
    activated.release();
    const { bias } = this.#down;
    return bias === undefined ? output : groupedBias(tape, { input: output, bias, probabilities, offsets });
  }
}
