import {
  biasDropoutResidual,
  type Dropout,
  gelu,
  layerNorm,
  Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { GeluKind } from '@mtl/kernels';
import {
  columnParallelLinear,
  rowParallelLinear,
  sliceOfRank,
  type TensorParallel,
} from '@mtl/tensor-parallel';
import { wholeOnEveryRank } from './whole-on-every-rank.js';

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
  /** Cuts heads and feed-forward features over processes. */
  readonly tensorParallel?: TensorParallel | undefined;
}

/** What differs from call to call: which keys a query sees, and what is dropped. */
export interface TransformerBlockContext {
  /** qkv [S, B, A * 3 * D] to attention output [S, B, A * D], A being the heads of this process. */
  attend(tape: Tape, qkv: Variable, layer: number): Variable;
  /** The dropout of a hidden site, undefined where nothing is dropped. */
  hiddenDropout(site: string): Dropout | undefined;
  /** Whether activations are cut along the sequence in this call; default: as `tensorParallel` says. */
  readonly sequenceParallel?: boolean | undefined;
}

interface Weights {
  readonly weight: Parameter;
  readonly bias: Parameter;
}

/**
 * A pre-layer-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)) (GPT-2; for BERT this is Megatron's
 * rearrangement, Shoeybi et al. 2019, figure 7b). Parameter names are Megatron-Core's.
 */
export class TransformerBlock {
  readonly parameters: readonly Parameter[];
  readonly #options: TransformerBlockOptions;
  readonly #inputNorm: Weights;
  readonly #qkv: Weights;
  readonly #projection: Weights;
  readonly #mlpNorm: Weights;
  readonly #up: Weights;
  readonly #down: Weights;

  /** @throws ConfigurationError MTL_TENSOR_PARALLEL_SIZE when heads or feed-forward features cannot be cut evenly */
  constructor(options: TransformerBlockOptions) {
    this.#options = options;
    const { hiddenSize, ffnHiddenSize, numAttentionHeads, initMethodStd, numLayers } = options;
    const residualStd = initMethodStd / Math.sqrt(2 * numLayers);
    const headSize = hiddenSize / numAttentionHeads;
    this.#inputNorm = this.#norm('input_layernorm');
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
    this.#mlpNorm = this.#norm('pre_mlp_layernorm');
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
    this.parameters = [
      this.#inputNorm,
      this.#qkv,
      this.#projection,
      this.#mlpNorm,
      this.#up,
      this.#down,
    ].flatMap(({ weight, bias }) => [weight, bias]);
  }

  /** [S, B, H] to [S, B, H], S being this process's part of it under sequence parallelism. */
  forward(tape: Tape, input: Variable, context: TransformerBlockContext): Variable {
    return tape.scope(() => {
      const afterAttention = biasDropoutResidual(tape, {
        input: this.#attention(tape, input, context),
        bias: this.#projection.bias,
        residual: input,
        dropout: context.hiddenDropout(this.#name('self_attention.hidden_dropout')),
      });
      return biasDropoutResidual(tape, {
        input: this.#mlp(tape, afterAttention, context),
        bias: this.#down.bias,
        residual: afterAttention,
        dropout: context.hiddenDropout(this.#name('mlp.hidden_dropout')),
      });
    });
  }

  /** Attention of the normalized input, projected; its bias is added together with dropout and residual. */
  #attention(tape: Tape, input: Variable, context: TransformerBlockContext): Variable {
    const { layer, layerNormEpsilon: epsilon } = this.#options;
    const normalized = layerNorm(tape, { input, ...this.#inputNorm, epsilon });
    const tensorParallel = this.#spread(context);
    const qkv = columnParallelLinear(tape, { input: normalized, ...this.#qkv, tensorParallel });
    normalized.release();
    const attended = context.attend(tape, qkv, layer);
    qkv.release();
    const { weight } = this.#projection;
    const projected = rowParallelLinear(tape, { input: attended, weight, tensorParallel });
    attended.release();
    return projected;
  }

  /** The feed-forward network of the normalized input; its last bias is added together with dropout and residual. */
  #mlp(tape: Tape, input: Variable, context: TransformerBlockContext): Variable {
    const { layerNormEpsilon: epsilon, geluKind: kind } = this.#options;
    const normalized = layerNorm(tape, { input, ...this.#mlpNorm, epsilon });
    const tensorParallel = this.#spread(context);
    const widened = columnParallelLinear(tape, { input: normalized, ...this.#up, tensorParallel });
    normalized.release();
    const activated = gelu(tape, { input: widened, kind });
    widened.release();
    const { weight } = this.#down;
    const narrowed = rowParallelLinear(tape, { input: activated, weight, tensorParallel });
    activated.release();
    return narrowed;
  }

  #name(part: string): string {
    return `decoder.layers.${this.#options.layer}.${part}`;
  }

  #spread({ sequenceParallel }: TransformerBlockContext): TensorParallel | undefined {
    const { tensorParallel } = this.#options;
    if (tensorParallel === undefined || sequenceParallel === undefined) return tensorParallel;
    return { ...tensorParallel, sequenceParallel };
  }

  /** A vector [H] that every process holds; cut sequences make its gradient there a part. */
  #vector(name: string, kind: 'ones' | 'zeros'): Parameter {
    const { hiddenSize, tensorParallel } = this.#options;
    return new Parameter({
      name: this.#name(name),
      globalShape: [hiddenSize],
      initialization: { kind },
      ...wholeOnEveryRank(tensorParallel),
    });
  }

  #norm(part: string): Weights {
    return { weight: this.#vector(`${part}.weight`, 'ones'), bias: this.#vector(`${part}.bias`, 'zeros') };
  }

  /** Weight [...outputs, H] and bias [...outputs], of which this process holds a part of the first dimension. */
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
        initialization: { kind: 'normal', standardDeviation },
      }),
      // a bias never decays, whatever its number of dimensions (Megatron's rule)
      bias: new Parameter({
        name: `${name}.bias`,
        globalShape: outputs,
        slices,
        initialization: { kind: 'zeros' },
        decays: false,
      }),
    };
  }

  /** Weight [H, inputs], of which this process holds the columns of some groups (heads), and a whole bias [H]. */
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
        initialization: { kind: 'normal', standardDeviation },
      }),
      bias: this.#vector(`${part}.bias`, 'zeros'),
    };
  }
}
