import {
  biasDropoutResidual,
  type Dropout,
  layerNorm,
  Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { GeluKind } from '@mtl/kernels';
import {
  columnParallelLinear,
  columnParallelLinearGelu,
  rowParallelLinear,
  sliceOfRank,
  type TensorParallel,
} from '@mtl/tensor-parallel';
import { replicationOverTensorParallel } from './replication-over-tensor-parallel.js';

/** The position of a layer norm: before each sublayer, or after its residual sum. */
export type LayerNormPlacement = 'pre' | 'post';

export interface TransformerBlockOptions {
  /** Global index of the layer. */
  readonly layer: number;
  /** Layers of the whole model: weights before a residual start smaller by sqrt(2 * numLayers). */
  readonly numLayers: number;
  readonly hiddenSize: number;
  readonly ffnHiddenSize: number;
  readonly numAttentionHeads: number;
  readonly layerNormEpsilon: number;
  readonly geluKind: GeluKind;
  readonly initMethodStd: number;
  /** Default `pre`. */
  readonly layerNormPlacement?: LayerNormPlacement | undefined;
  /** What the layers are called in parameter names, as in Megatron-Core. Default `decoder`. */
  readonly stack?: 'decoder' | 'encoder' | undefined;
  /** Shards heads and feed-forward features over ranks. */
  readonly tensorParallel?: TensorParallel | undefined;
}

/** What differs from call to call: which keys a query sees, and what is dropped. */
export interface TransformerBlockContext {
  /** qkv [S, B, A * 3 * D] to attention output [S, B, A * D], A being the heads of this process. */
  attend(tape: Tape, qkv: Variable, layer: number): Variable;
  /** The dropout of a hidden site, undefined where nothing is dropped. */
  hiddenDropout(site: string): Dropout | undefined;
  /** Whether activations are sharded along the sequence in this call; default: that of `tensorParallel`. */
  readonly sequenceParallel?: boolean | undefined;
}

interface SublayerInput {
  readonly input: Variable;
  /** To be called as soon as nothing more is computed with the input. */
  readonly used: () => void;
}

interface Weights {
  readonly weight: Parameter;
  readonly bias: Parameter;
}

/**
 * A transformer layer. `pre`: x + attention(norm(x)), then x + mlp(norm(x)) (GPT-2; for BERT this is
 * Megatron's rearrangement, Shoeybi et al. 2019, figure 7b); `post`: norm(x + attention(x)), then
 * norm(x + mlp(x)) (the original order, figure 7a). Parameter names are Megatron-Core's; norms after a
 * sublayer have names of their own, so that weights of one kind are never taken for the other's.
 */
export class TransformerBlock {
  readonly parameters: readonly Parameter[];
  readonly #options: TransformerBlockOptions;
  readonly #attentionNorm: Weights;
  readonly #qkv: Weights;
  readonly #projection: Weights;
  readonly #mlpNorm: Weights;
  readonly #up: Weights;
  readonly #down: Weights;

  /**
   * @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when heads or feed-forward features cannot be sharded
   *   evenly
   */
  constructor(options: TransformerBlockOptions) {
    this.#options = options;
    const { hiddenSize, ffnHiddenSize, numAttentionHeads, initMethodStd, numLayers } = options;
    const residualStd = initMethodStd / Math.sqrt(2 * numLayers);
    const headSize = hiddenSize / numAttentionHeads;
    const isPost = options.layerNormPlacement === 'post';
    this.#attentionNorm = this.#norm(isPost ? 'post_attention_layernorm' : 'input_layernorm');
    // [A, 3, D, H]: a tensor-parallel shard of whole heads is one slice
    this.#qkv = this.#columnParallel('self_attention.linear_qkv', {
      outputs: [numAttentionHeads, 3, headSize],
      what: 'attention heads',
      standardDeviation: initMethodStd,
    });
    this.#projection = this.#rowParallel('self_attention.linear_proj', {
      inputs: [numAttentionHeads, headSize],
      what: 'attention heads',
      standardDeviation: residualStd,
    });
    this.#mlpNorm = this.#norm(isPost ? 'post_mlp_layernorm' : 'pre_mlp_layernorm');
    this.#up = this.#columnParallel('mlp.linear_fc1', {
      outputs: [ffnHiddenSize],
      what: 'feed-forward features',
      standardDeviation: initMethodStd,
    });
    this.#down = this.#rowParallel('mlp.linear_fc2', {
      inputs: [ffnHiddenSize, 1],
      what: 'feed-forward features',
      standardDeviation: residualStd,
    });
    const attention = [this.#qkv, this.#projection];
    const mlp = [this.#up, this.#down];
    // in the order in which forward uses them
    this.parameters = (
      isPost
        ? [...attention, this.#attentionNorm, ...mlp, this.#mlpNorm]
        : [this.#attentionNorm, ...attention, this.#mlpNorm, ...mlp]
    ).flatMap(({ weight, bias }) => [weight, bias]);
  }

  /** [S, B, H] to [S, B, H], S being this process's part of it under sequence parallelism. */
  forward(tape: Tape, input: Variable, context: TransformerBlockContext): Variable {
    return tape.scope(() => {
      const afterAttention = this.#sublayer(tape, input, {
        norm: this.#attentionNorm,
        compute: (of) => this.#attention(tape, of, context),
        bias: this.#projection.bias,
        dropout: context.hiddenDropout(this.#name('self_attention.hidden_dropout')),
      });
      return this.#sublayer(tape, afterAttention, {
        norm: this.#mlpNorm,
        compute: (of) => this.#mlp(tape, of, context),
        bias: this.#down.bias,
        dropout: context.hiddenDropout(this.#name('mlp.hidden_dropout')),
      });
    });
  }

  /**
   * A sublayer with its layer norm before or after it; its last bias is added together with dropout and
   * residual.
   */
  #sublayer(
    tape: Tape,
    input: Variable,
    part: {
      readonly norm: Weights;
      readonly compute: (of: SublayerInput) => Variable;
      readonly bias: Parameter;
      readonly dropout: Dropout | undefined;
    },
  ): Variable {
    const { layerNormEpsilon: epsilon, layerNormPlacement = 'pre' } = this.#options;
    const { norm, compute, bias, dropout } = part;
    const normalized = (of: Variable): Variable => layerNorm(tape, { input: of, ...norm, epsilon });
    if (layerNormPlacement === 'post') {
      const output = compute({ input, used: () => {} });
      return normalized(biasDropoutResidual(tape, { input: output, bias, residual: input, dropout }));
    }
    const before = normalized(input);
    const output = compute({ input: before, used: () => before.release() });
    return biasDropoutResidual(tape, { input: output, bias, residual: input, dropout });
  }

  /** Attention, projected without the projection's bias. */
  #attention(tape: Tape, { input, used }: SublayerInput, context: TransformerBlockContext): Variable {
    const tensorParallel = this.#tensorParallelOf(context);
    const qkv = columnParallelLinear(tape, { input, ...this.#qkv, tensorParallel });
    used();
    const attended = context.attend(tape, qkv, this.#options.layer);
    qkv.release();
    const { weight } = this.#projection;
    const projected = rowParallelLinear(tape, { input: attended, weight, tensorParallel });
    attended.release();
    return projected;
  }

  /** The feed-forward network without its last bias. */
  #mlp(tape: Tape, { input, used }: SublayerInput, context: TransformerBlockContext): Variable {
    const tensorParallel = this.#tensorParallelOf(context);
    const kind = this.#options.geluKind;
    const activated = columnParallelLinearGelu(tape, { input, ...this.#up, kind, tensorParallel });
    used();
    const { weight } = this.#down;
    const projected = rowParallelLinear(tape, { input: activated, weight, tensorParallel });
    activated.release();
    return projected;
  }

  #name(part: string): string {
    return `${this.#options.stack ?? 'decoder'}.layers.${this.#options.layer}.${part}`;
  }

  #tensorParallelOf({ sequenceParallel }: TransformerBlockContext): TensorParallel | undefined {
    const { tensorParallel } = this.#options;
    if (tensorParallel === undefined || sequenceParallel === undefined) return tensorParallel;
    return { ...tensorParallel, sequenceParallel };
  }

  /** A replicated vector [H]; with sharded sequences its gradient on each rank is a partial sum. */
  #vector(name: string, kind: 'ones' | 'zeros'): Parameter {
    const { hiddenSize, tensorParallel } = this.#options;
    return new Parameter({
      name: this.#name(name),
      globalShape: [hiddenSize],
      initialization: { kind },
      ...replicationOverTensorParallel(tensorParallel),
    });
  }

  #norm(part: string): Weights {
    return { weight: this.#vector(`${part}.weight`, 'ones'), bias: this.#vector(`${part}.bias`, 'zeros') };
  }

  /**
   * Weight [...outputs, H] and bias [...outputs], sharded along the first dimension.
   */
  #columnParallel(
    part: string,
    options: { outputs: readonly number[]; what: string; standardDeviation: number },
  ): Weights {
    const { outputs, what, standardDeviation } = options;
    const { hiddenSize, tensorParallel } = this.#options;
    const own = sliceOfRank(tensorParallel, { size: outputs[0]!, what });
    const slices = [own, ...outputs.slice(1).map((size) => ({ start: 0, end: size }))];
    const name = this.#name(part);
    return {
      weight: new Parameter({
        name: `${name}.weight`,
        globalShape: [...outputs, hiddenSize],
        slices: [...slices, { start: 0, end: hiddenSize }],
        shardedOver: ['tp', 'pp'],
        initialization: { kind: 'normal', standardDeviation },
      }),
      // a bias never decays, whatever its number of dimensions (Megatron's rule)
      bias: new Parameter({
        name: `${name}.bias`,
        globalShape: outputs,
        slices,
        shardedOver: ['tp', 'pp'],
        initialization: { kind: 'zeros' },
        decays: false,
      }),
    };
  }

  /**
   * Weight [H, inputs], of which this rank holds the columns of some groups (heads), and a replicated bias
   * [H].
   */
  #rowParallel(
    part: string,
    options: {
      inputs: readonly [numGroups: number, groupSize: number];
      what: string;
      standardDeviation: number;
    },
  ): Weights {
    const { inputs, what, standardDeviation } = options;
    const { hiddenSize, tensorParallel } = this.#options;
    const [numGroups, groupSize] = inputs;
    const own = sliceOfRank(tensorParallel, { size: numGroups, what });
    return {
      weight: new Parameter({
        name: this.#name(`${part}.weight`),
        globalShape: [hiddenSize, numGroups * groupSize],
        slices: [
          { start: 0, end: hiddenSize },
          { start: own.start * groupSize, end: own.end * groupSize },
        ],
        shardedOver: ['tp', 'pp'],
        initialization: { kind: 'normal', standardDeviation },
      }),
      bias: this.#vector(`${part}.bias`, 'zeros'),
    };
  }
}
