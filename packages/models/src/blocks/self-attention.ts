import type { Parameter, Tape, Variable } from '@mtl/autograd';
import {
  columnParallelLinear,
  columnParallelParameters,
  rowParallelLinear,
  rowParallelParameters,
  sliceOfRank,
} from '@mtl/tensor-parallel';
import type { MicroBatchContext } from './micro-batch-context.js';
import type { Sublayer, SublayerInput, SublayerOptions } from './sublayer.js';

/** Which attention, with what. Kinds may add fields. */
export interface AttentionSpecification {
  readonly kind: string;
  /** A */
  readonly numHeads: number;
  /** D: features of a head; A * D may differ from the hidden size. */
  readonly headSize: number;
  /** Whether the projections to queries, keys and values, and to the output, have biases. */
  readonly bias: boolean;
  /** Probability with which attention weights are dropped. */
  readonly dropout: number;
}

/**
 * Self-attention with as many keys and values as queries (Vaswani et al. 2017). A rank holds complete heads:
 * the packed projection is [A, 3, D, H], so that the shard of a rank is one slice.
 */
export class SelfAttention implements Sublayer {
  readonly parameters: readonly Parameter[];
  readonly outputBias: Parameter | undefined;
  readonly #options: SublayerOptions<AttentionSpecification>;
  readonly #qkv: ReturnType<typeof columnParallelParameters>;
  readonly #projection: ReturnType<typeof rowParallelParameters>;
  readonly #numHeads: number;
  readonly #headOffset: number;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when heads cannot be sharded evenly */
  constructor(options: SublayerOptions<AttentionSpecification>) {
    const { name, hiddenSize, specification, initialization, tensorParallel } = options;
    const { numHeads, headSize, bias } = specification;
    const what = 'attention heads';
    this.#options = options;
    this.#qkv = columnParallelParameters({
      name: `${name}.linear_qkv`,
      inputs: hiddenSize,
      outputs: [numHeads, 3, headSize],
      what,
      standardDeviation: initialization.standardDeviation,
      bias,
      tensorParallel,
    });
    this.#projection = rowParallelParameters({
      name: `${name}.linear_proj`,
      inputs: { numGroups: numHeads, groupSize: headSize },
      outputs: hiddenSize,
      what,
      standardDeviation: initialization.residualStandardDeviation,
      bias,
      tensorParallel,
    });
    const own = sliceOfRank(tensorParallel, { size: numHeads, what });
    this.#numHeads = own.end - own.start;
    this.#headOffset = own.start;
    this.outputBias = this.#projection.bias;
    this.parameters = [this.#qkv, this.#projection]
      .flatMap(({ weight, bias: own }) => [weight, own])
      .filter((parameter) => parameter !== undefined);
  }

  forward(tape: Tape, { input, used }: SublayerInput, context: MicroBatchContext): Variable {
    const { name, layer, specification } = this.#options;
    const { tensorParallel } = context;
    const qkv = columnParallelLinear(tape, { input, ...this.#qkv, tensorParallel });
    used();
    const attended = context.attend(tape, {
      qkv,
      layer,
      numHeads: this.#numHeads,
      headOffset: this.#headOffset,
      dropout: { site: `${name}.attention_dropout`, probability: specification.dropout },
    });
    qkv.release();
    const { weight } = this.#projection;
    const projected = rowParallelLinear(tape, { input: attended, weight, tensorParallel });
    attended.release();
    return projected;
  }
}
