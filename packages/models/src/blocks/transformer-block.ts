import {
  biasDropoutResidual,
  type Dropout,
  gelu,
  layerNorm,
  linear,
  Parameter,
  type Tape,
  type Variable,
} from '@mtl/autograd';
import type { GeluKind } from '@mtl/kernels';

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
}

/** What differs from call to call: which keys a query sees, and what is dropped. */
export interface TransformerBlockContext {
  /** qkv [S, B, A * 3 * D] to attention output [S, B, A * D]. */
  attend(tape: Tape, qkv: Variable, layer: number): Variable;
  /** The dropout of a hidden site, undefined where nothing is dropped. */
  hiddenDropout(site: string): Dropout | undefined;
}

/**
 * A pre-layer-norm transformer layer: x + attention(norm(x)), then x + mlp(norm(x)) (GPT-2; for BERT this is Megatron's
 * rearrangement, Shoeybi et al. 2019, figure 7b). Parameter names are Megatron-Core's.
 */
export class TransformerBlock {
  readonly parameters: readonly Parameter[];
  readonly #options: TransformerBlockOptions;
  readonly #inputNorm: { weight: Parameter; bias: Parameter };
  readonly #qkv: { weight: Parameter; bias: Parameter };
  readonly #projection: { weight: Parameter; bias: Parameter };
  readonly #mlpNorm: { weight: Parameter; bias: Parameter };
  readonly #up: { weight: Parameter; bias: Parameter };
  readonly #down: { weight: Parameter; bias: Parameter };

  constructor(options: TransformerBlockOptions) {
    this.#options = options;
    const { hiddenSize, ffnHiddenSize, numAttentionHeads, initMethodStd, numLayers } = options;
    const residualStd = initMethodStd / Math.sqrt(2 * numLayers);
    const headSize = hiddenSize / numAttentionHeads;
    this.#inputNorm = this.#norm('input_layernorm');
    // [A, 3, D, H]: a tensor-parallel shard of whole heads is one slice
    this.#qkv = this.#linear(
      'self_attention.linear_qkv',
      [numAttentionHeads, 3, headSize],
      hiddenSize,
      initMethodStd,
    );
    this.#projection = this.#linear('self_attention.linear_proj', [hiddenSize], hiddenSize, residualStd);
    this.#mlpNorm = this.#norm('pre_mlp_layernorm');
    this.#up = this.#linear('mlp.linear_fc1', [ffnHiddenSize], hiddenSize, initMethodStd);
    this.#down = this.#linear('mlp.linear_fc2', [hiddenSize], ffnHiddenSize, residualStd);
    this.parameters = [
      this.#inputNorm,
      this.#qkv,
      this.#projection,
      this.#mlpNorm,
      this.#up,
      this.#down,
    ].flatMap(({ weight, bias }) => [weight, bias]);
  }

  /** [S, B, H] to [S, B, H]. Results are released as soon as the next operation has used them. */
  forward(tape: Tape, input: Variable, context: TransformerBlockContext): Variable {
    return tape.scope(() => {
      const afterAttention = biasDropoutResidual(tape, {
        input: this.#attention(tape, input, context),
        bias: this.#projection.bias,
        residual: input,
        dropout: context.hiddenDropout(this.#name('self_attention.hidden_dropout')),
      });
      return biasDropoutResidual(tape, {
        input: this.#mlp(tape, afterAttention),
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
    const qkv = linear(tape, { input: normalized, ...this.#qkv });
    normalized.release();
    const attended = context.attend(tape, qkv, layer);
    qkv.release();
    const projected = linear(tape, { input: attended, weight: this.#projection.weight });
    attended.release();
    return projected;
  }

  /** The feed-forward network of the normalized input; its last bias is added together with dropout and residual. */
  #mlp(tape: Tape, input: Variable): Variable {
    const { layerNormEpsilon: epsilon, geluKind: kind } = this.#options;
    const normalized = layerNorm(tape, { input, ...this.#mlpNorm, epsilon });
    const widened = linear(tape, { input: normalized, ...this.#up });
    normalized.release();
    const activated = gelu(tape, { input: widened, kind });
    widened.release();
    const narrowed = linear(tape, { input: activated, weight: this.#down.weight });
    activated.release();
    return narrowed;
  }

  #name(part: string): string {
    return `decoder.layers.${this.#options.layer}.${part}`;
  }

  #norm(part: string): { weight: Parameter; bias: Parameter } {
    const globalShape = [this.#options.hiddenSize];
    const name = this.#name(part);
    return {
      weight: new Parameter({ name: `${name}.weight`, globalShape, initialization: { kind: 'ones' } }),
      bias: new Parameter({ name: `${name}.bias`, globalShape, initialization: { kind: 'zeros' } }),
    };
  }

  #linear(part: string, outputs: readonly number[], inputs: number, standardDeviation: number) {
    const name = this.#name(part);
    return {
      weight: new Parameter({
        name: `${name}.weight`,
        globalShape: [...outputs, inputs],
        initialization: { kind: 'normal', standardDeviation },
      }),
      // a bias never decays, whatever its number of dimensions (Megatron's rule)
      bias: new Parameter({
        name: `${name}.bias`,
        globalShape: outputs,
        initialization: { kind: 'zeros' },
        decays: false,
      }),
    };
  }
}
