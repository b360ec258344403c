import {
  biasDropoutResidual,
  type Parameter,
  reshape,
  routerLinear,
  rowGate,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import { ConfigurationError } from '@mtl/errors';
import { replicatedParameter } from '@mtl/tensor-parallel';
import { ActivatedFeedForward } from '../blocks/activated-feed-forward.js';
import {
  type FeedForwardActivation,
  geluActivation,
  squaredReluActivation,
  swigluActivation,
} from '../blocks/feed-forward-activation.js';
import type { MicroBatchContext } from '../blocks/micro-batch-context.js';
import type { SublayerOptions } from '../blocks/sublayer.js';
import type { ExpertActivationSpecification, ExpertsSpecification } from './experts-specification.js';

/**
 * Experts that every token uses: one feed-forward network of their widths together, sharded as dense ones
 * are. With a gate its output is multiplied by the sigmoid of a projection of its input (Qwen2-MoE).
 */
export class SharedExperts {
  readonly parameters: readonly Parameter[];
  /** Elements of its matrices. */
  readonly weights: number;
  readonly #network: ActivatedFeedForward;
  readonly #gate: Parameter | undefined;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when features cannot be sharded evenly */
  constructor(
    options: SublayerOptions<ExpertsSpecification>,
    { ffnHiddenSize, gate }: NonNullable<ExpertsSpecification['shared']>,
  ) {
    const { name, hiddenSize, specification, initialization, tensorParallel } = options;
    const { activation, bias } = specification;
    const network = { kind: activation.kind, ffnHiddenSize, bias };
    this.#network = new ActivatedFeedForward(
      { ...options, specification: network },
      activationOf(activation),
    );
    this.#gate = gate
      ? replicatedParameter({
          name: `${name}.gate_weight`,
          globalShape: [1, hiddenSize],
          initialization: { kind: 'normal', standardDeviation: initialization.standardDeviation },
          tensorParallel,
        })
      : undefined;
    this.parameters = [...this.#network.parameters, this.#gate].filter(
      (parameter) => parameter !== undefined,
    );
    this.weights = this.#network.parameters
      .filter(({ matrices }) => matrices.length > 0)
      .reduce((sum, { globalShape }) => sum + globalShape.reduce((product, size) => product * size, 1), 0);
  }

  /** [S, B, H] of its output and `routed`, [S, B, H], together. */
  add(
    tape: Tape,
    { input, routed }: { readonly input: Variable; readonly routed: Variable },
    context: MicroBatchContext,
  ): Variable {
    const call = { input, used: () => {}, dropout: undefined };
    if (this.#gate === undefined) return this.#network.forward(tape, { ...call, residual: routed }, context);
    const output = this.#network.forward(tape, call, context);
    const logits = routerLinear(tape, { input, weight: this.#gate });
    const vector = reshape(tape, { input: logits, shape: [logits.tensor.size] });
    const gated = rowGate(tape, { input: output, logits: vector });
    return biasDropoutResidual(tape, { input: gated, residual: routed });
  }
}

function activationOf({ kind }: ExpertActivationSpecification): FeedForwardActivation {
  switch (kind) {
    case 'swiglu':
      return swigluActivation;
    case 'squaredRelu':
      return squaredReluActivation;
    case 'geluErf':
      return geluActivation('erf');
    case 'geluTanh':
      return geluActivation('tanh');
    case 'clampedQuickGeglu':
      throw new ConfigurationError('MTL_BLOCK_KIND', 'shared experts with quick GEGLU', {
        expected: 'SwiGLU, GELU or squared ReLU',
        remedy: 'leave out --quick-geglu or the shared experts',
      });
  }
}
