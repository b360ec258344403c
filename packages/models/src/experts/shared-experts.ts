import {
  biasDropoutResidual,
  type Parameter,
  recompute,
  reshape,
  routerLinear,
  rowGate,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import {
  ActivatedFeedForward,
  clampedGluActivation,
  type FeedForwardActivation,
  geluActivation,
  squaredReluActivation,
  swigluActivation,
} from '../blocks/feed-forward.js';
import type { PendingVariable } from '../blocks/layer-factory.js';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { RowCoordinate } from '../blocks/row-coordinates.js';
import type { SublayerOptions } from '../blocks/sublayer.js';
import type { ExpertActivationSpecification, ExpertsSpecification } from './experts-specification.js';

/**
 * Experts that every token uses. They are computed as a single feed-forward network with their total width,
 * which is sharded like a dense network. If there is a gate, the output is multiplied by the sigmoid of a
 * projection of the input (as in Qwen2-MoE).
 */
export class SharedExperts {
  readonly parameters: readonly Parameter[];
  readonly reads: readonly RowCoordinate[];
  /** The number of elements in all matrices of the shared experts. */
  readonly weights: number;
  readonly #network: ActivatedFeedForward;
  readonly #gate: Parameter | undefined;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE if features cannot be sharded evenly */
  constructor(
    options: SublayerOptions<ExpertsSpecification>,
    { ffnHiddenSize, gate }: NonNullable<ExpertsSpecification['shared']>,
  ) {
    const { name, hiddenSize, specification, initialization, factory } = options;
    const { activation, bias } = specification;
    const network = { kind: activation.kind, ffnHiddenSize, bias };
    this.#network = new ActivatedFeedForward(
      { ...options, specification: network, factory: factory.ofSharedExperts() },
      makeActivation(activation),
    );
    this.reads = this.#network.reads;
    this.#gate = gate
      ? factory.replicated({
          name: `${name}.gate_weight`,
          globalShape: [1, hiddenSize],
          initialization: { kind: 'normal', standardDeviation: initialization.standardDeviation },
        })
      : undefined;
    this.parameters = [...this.#network.parameters, this.#gate].filter(
      (parameter) => parameter !== undefined,
    );
    this.weights = this.#network.parameters
      .filter(({ matrices }) => matrices.length > 0)
      .reduce((sum, { globalShape }) => sum + globalShape.reduce((product, size) => product * size, 1), 0);
  }

  /** Computes [S, B, H]: the output of these experts plus `routed`. */
  add(
    tape: Tape,
    { input, routed }: { readonly input: Variable; readonly routed: Variable },
    context: MicroBatchContext,
  ): Variable {
    if (this.#gate === undefined && !isRecomputed(context)) {
      const call = { input, used: () => {}, dropout: undefined, residual: routed };
      return this.#network.forward(tape, call, context);
    }
    const output = this.begin(tape, input, context).finish(tape);
    return biasDropoutResidual(tape, { input: output, residual: routed });
  }

  /**
   * Computes the output [S, B, H] in two phases. Each phase overlaps with an exchange of rows. This call
   * computes the first phase, and the result's `finish` computes the second phase.
   */
  begin(tape: Tape, input: Variable, context: MicroBatchContext): PendingVariable {
    if (isRecomputed(context)) {
      const output = recompute(tape, input, (inner, again) => {
        const call = { input: again, used: () => {}, dropout: undefined };
        return this.#network.forward(inner, call, context);
      });
      return { finish: (last) => this.#gated(last, input, output) };
    }
    const activated = this.#network.activate(tape, input, context);
    return {
      finish: (last) => {
        const output = this.#network.project(last, { activated }, context);
        activated.release();
        return this.#gated(last, input, output);
      },
    };
  }

  #gated(tape: Tape, input: Variable, output: Variable): Variable {
    if (this.#gate === undefined) return output;
    const logits = routerLinear(tape, { input, weight: this.#gate });
    const vector = reshape(tape, { input: logits, shape: [logits.tensor.size] });
    return rowGate(tape, { input: output, logits: vector });
  }
}

const isRecomputed = ({ recomputed }: MicroBatchContext): boolean =>
  recomputed?.includes('shared_experts') === true;

function makeActivation({ kind, clamp, linearOffset }: ExpertActivationSpecification): FeedForwardActivation {
  if (kind === 'clampedQuickGeglu') return clampedGluActivation({ gate: kind, clamp, linearOffset });
  if (kind === 'squaredRelu') return squaredReluActivation;
  if (kind !== 'swiglu') return geluActivation(kind === 'geluErf' ? 'erf' : 'tanh');
  const isPlain = clamp === undefined && linearOffset === undefined;
  return isPlain ? swigluActivation : clampedGluActivation({ gate: kind, clamp, linearOffset });
}
